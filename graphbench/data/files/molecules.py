"""Molecular graphs from SMILES, with OGB's nine atom and three bond columns, read in several processes.

The columns are those of ``ogb.utils.features`` (ogb 1.3.6, https://github.com/snap-stanford/ogb): each is a position in
a list of known values; an unknown value takes the last position. RDKit does the chemistry.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from graphbench.cores import available_cores
from graphbench.errors import UserError

_log = logging.getLogger(__name__)

_CHUNK = 1000
_LARGEST_ATOMIC_NUMBER = 118
_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
_HYBRIDIZATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_BOND_TYPE = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")
_CHARGE = 5
_DEGREES, _HYDROGENS, _RADICALS = 11, 9, 5  # known values 0 .. n-1; anything else is n

ATOM_COLUMNS = 9
BOND_COLUMNS = 3


def molecules(smiles: Sequence[str], what: str, *, contacts: bool = False) -> dict[str, np.ndarray]:
    """Concatenated arrays of some molecules, ready for ``GraphStore.from_arrays``.

    Every bond gives two directed edges, one after the other.

    Args:
        smiles: one text per molecule.
        what: name of the data set, for messages.
        contacts: the texts are CXSMILES, taken as they are (hydrogens stay atoms, nothing is perceived), whose atom
            property ``contact`` numbers the contacts that the atom takes part in, separated by semicolons.

    Returns:
        ``nodes`` (G,), ``edges`` (G,), ``edge_index`` (2, E) int32, ``x`` (N, 9) uint8, ``edge_attr`` (E, 3) uint8;
        with ``contacts`` also ``num_contacts`` (G,) and ``contacts`` (2, P) int32, atom numbers, each contact once.

    Raises:
        UserError: RDKit is not installed, or cannot read a text; names its number.
    """
    try:
        import rdkit  # noqa: F401
    except ImportError:
        raise UserError(
            f"reading the SMILES of {what} needs RDKit: pip install 'graphbench-gt[molecules]' (or pip install rdkit)."
        ) from None
    chunks = [list(smiles[start : start + _CHUNK]) for start in range(0, len(smiles), _CHUNK)] or [[]]
    parts, reported = [], 0
    for done, part in enumerate(_map(partial(_featurize, contacts=contacts), chunks), start=1):
        if "unreadable" in part:
            number = (done - 1) * _CHUNK + int(part["unreadable"])
            raise UserError(f"{what}: RDKit cannot read SMILES number {number}, '{smiles[number]}'.")
        parts.append(part)
        if 10 * done // len(chunks) > reported and len(chunks) >= 10:
            reported = 10 * done // len(chunks)
            _log.info("%s: %d %% of %d molecules read", what, 10 * reported, len(smiles))
    axis = {"edge_index": 1, "contacts": 1}
    return {name: np.concatenate([part[name] for part in parts], axis.get(name, 0)) for name in parts[0]}


def rebuilt(atoms: np.ndarray, edge_index: np.ndarray, bonds: np.ndarray) -> Any | None:
    """The molecule of some columns, to be drawn: elements, charges and bonds; no hydrogens, nothing is perceived.

    Args:
        atoms: (n, 9).
        edge_index: (2, E) atom numbers.
        bonds: (E, 3).

    Returns:
        An RDKit molecule; None where the columns are none of a molecule, or RDKit is not installed.
    """
    fits = atoms.shape[1:] == (ATOM_COLUMNS,) and bonds.shape[1:] == (BOND_COLUMNS,)
    if not fits or (len(bonds) and int(bonds[:, 0].max()) > len(_BOND_TYPE)):
        return None
    try:
        from rdkit import Chem
    except ImportError:
        return None
    molecule = Chem.RWMol()
    for columns in atoms.tolist():
        atom = Chem.Atom(0 if columns[0] >= _LARGEST_ATOMIC_NUMBER else columns[0] + 1)
        atom.SetFormalCharge(columns[3] - _CHARGE if columns[3] <= 2 * _CHARGE else 0)
        atom.SetNoImplicit(True)
        molecule.AddAtom(atom)
    for (i, j), columns in zip(edge_index.T.tolist(), bonds.tolist(), strict=True):
        if i != j and molecule.GetBondBetweenAtoms(i, j) is None:
            name = _BOND_TYPE[columns[0]] if columns[0] < len(_BOND_TYPE) else "UNSPECIFIED"
            molecule.AddBond(i, j, getattr(Chem.BondType, name))
    molecule.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(molecule)
    return molecule


def _map(function: Any, chunks: list[list[str]]) -> Iterator[dict[str, np.ndarray]]:
    workers = min(available_cores(), len(chunks) // 4)
    if workers < 2:
        yield from map(function, chunks)
        return
    # A forked process would inherit the locks of torch's threads.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        with _main_script_hidden():
            results = pool.map(function, chunks)  # hands everything out and starts the processes
        yield from results


@contextmanager
def _main_script_hidden() -> Iterator[None]:
    """Keeps new processes from running the user's script again.

    A spawned process imports the main script, and one without ``if __name__ == "__main__"`` would start over there and
    wait for the cache that its parent is filling. The workers need nothing of it.
    """
    main = sys.modules["__main__"]
    file, spec = getattr(main, "__file__", None), main.__spec__
    if file is not None:
        del main.__file__
    main.__spec__ = None
    try:
        yield
    finally:
        main.__spec__ = spec
        if file is not None:
            main.__file__ = file


def _featurize(smiles: list[str], contacts: bool) -> dict[str, Any]:
    from rdkit import Chem, rdBase

    quiet = rdBase.BlockLogs()  # what cannot be read is said once, by us
    nodes, edges, atoms, bonds, ends, in_contact, num_contacts = [], [], [], [], [], [], []
    for number, text in enumerate(smiles):
        molecule = Chem.MolFromSmiles(text, sanitize=not contacts)
        if molecule is None:
            return {"unreadable": np.asarray(number)}
        if contacts:
            molecule.UpdatePropertyCache(strict=False)  # counts hydrogens that are not written, and nothing else
        atoms += [_atom(atom) for atom in molecule.GetAtoms()]
        for bond in molecule.GetBonds():
            i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            ends += [(i, j), (j, i)]
            bonds += [_bond(bond)] * 2
        nodes.append(molecule.GetNumAtoms())
        edges.append(2 * molecule.GetNumBonds())
        if contacts:
            contacts_of_molecule = _contacts(molecule)
            in_contact += contacts_of_molecule
            num_contacts.append(len(contacts_of_molecule))
    del quiet
    arrays = {
        "nodes": np.asarray(nodes, dtype=np.int64),
        "edges": np.asarray(edges, dtype=np.int64),
        "edge_index": np.asarray(ends, dtype=np.int32).reshape(-1, 2).T,
        "x": np.asarray(atoms, dtype=np.uint8).reshape(-1, ATOM_COLUMNS),
        "edge_attr": np.asarray(bonds, dtype=np.uint8).reshape(-1, BOND_COLUMNS),
    }
    if contacts:
        arrays["num_contacts"] = np.asarray(num_contacts, dtype=np.int64)
        arrays["contacts"] = np.asarray(in_contact, dtype=np.int32).reshape(-1, 2).T
    return arrays


def _atom(atom: Any) -> tuple[int, ...]:
    number, charge = atom.GetAtomicNum(), atom.GetFormalCharge()
    return (
        number - 1 if 1 <= number <= _LARGEST_ATOMIC_NUMBER else _LARGEST_ATOMIC_NUMBER,
        _position(_CHIRALITY, atom.GetChiralTag()),
        min(atom.GetTotalDegree(), _DEGREES),
        charge + _CHARGE if abs(charge) <= _CHARGE else 2 * _CHARGE + 1,
        min(atom.GetTotalNumHs(), _HYDROGENS),
        min(atom.GetNumRadicalElectrons(), _RADICALS),
        _position(_HYBRIDIZATION, atom.GetHybridization()),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    )


def _bond(bond: Any) -> tuple[int, ...]:
    stereo = str(bond.GetStereo())
    return (
        _position(_BOND_TYPE, bond.GetBondType()),
        _STEREO.index(stereo) if stereo in _STEREO else len(_STEREO) - 1,  # has no entry for unknown values
        int(bond.GetIsConjugated()),
    )


def _position(known: tuple[str, ...], value: Any) -> int:
    name = str(value)
    return known.index(name) if name in known else len(known)


def _contacts(molecule: Any) -> list[tuple[int, int]]:
    members: dict[int, list[int]] = {}
    for atom in molecule.GetAtoms():
        if atom.HasProp("contact"):
            for number in atom.GetProp("contact").split(";"):
                members.setdefault(int(number), []).append(atom.GetIdx())
    return [(atoms[0], atoms[1]) for _, atoms in sorted(members.items()) if len(atoms) == 2]
