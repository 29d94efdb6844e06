"""Keys of data sets, their encoders and encodings, and of what is prepared for them."""

from __future__ import annotations

from graphbench.config.key import NO_EFFECT, Key
from graphbench.vocabulary import TASK_TYPES, TASKS

DATASET = {
    "format": Key("PyG", "family of data sets", namespaces=("data/datasets",)),
    "name": Key("none", "data set within the family"),
    "dir": Key("./datasets", "data root; searched before the roots in $GRAPHBENCH_DATA", neutral=True),
    "task": Key("node", "what is predicted", allowed=TASKS),
    "task_type": Key("classification", "kind of target", allowed=tuple(TASK_TYPES)),
    "transductive": Key(True, "splits are sets of nodes of one graph"),
    "split": Key(
        [0.8, 0.1, 0.1], "sizes of a random split: shares (sum at most 1) or counts; left out: those of its protocol"
    ),
    "train_fraction": Key(
        1.0,
        "share of the split's training examples that trains, drawn with the seed of the split; 1: all",
        minimum=0.0,
        maximum=1.0,
    ),
    "split_mode": Key(
        "standard",
        "standard (the public split), random, random-class, random-permutation, random-split, cv-kfold-K, ...",
    ),
    "split_index": Key(0, "which of several standard splits, or which fold", minimum=0),
    "split_file": Key("", "JSON file with train, val and test indices, or a list of such splits, for split_mode fixed"),
    "split_dir": Key("./splits", "", inert="folds are computed here, not cached"),
    "split_seed": Key(
        None,
        "seed of random splits and folds; none: the seed of the run, for folds 123 in every run",
        holds=int,
        optional=True,
        minimum=0,
    ),
    "node_encoder": Key(False, "encode node features"),
    "node_encoder_name": Key(
        "Atom",
        "<features>, <encoding>, or any + composition of them",
        namespaces=("encoders/node", "encoders/positional"),
    ),
    "node_encoder_join": Key(
        "concat",
        "features and encodings side by side, or added (then each has the full width: posenc_*.dim_pe)",
        allowed=("concat", "add"),
    ),
    "node_encoder_bn": Key(True, "BatchNorm after the node encoder"),
    "node_encoder_num_types": Key(0, "vocabulary of TypeDictNode; 0: the data set card's", minimum=0),
    "edge_encoder": Key(False, "encode edge features"),
    "edge_encoder_name": Key(
        "Bond",
        "<features>, or a + composition with edge-wise encodings",
        namespaces=("encoders/edge", "encoders/positional"),
    ),
    "edge_encoder_bn": Key(True, "BatchNorm after the edge encoder"),
    "edge_encoder_num_types": Key(0, "vocabulary of TypeDictEdge; 0: the data set card's", minimum=0),
    "slic_compactness": Key(10, "version of the superpixel data sets", allowed=(10, 30)),
    "infer_link_label": Key(
        "None", "edge: predict edges from node states, with head infer_links", allowed=("None", "none", "edge")
    ),
    "sparse_features": Key(
        "auto",
        "node features as sparse rows; auto: of one graph, with 64 columns or more and an eighth of nonzeros or less",
        allowed=("auto", "always", "never"),
    ),
    "distances": Key(
        "stored",
        "hop distances of all pairs, where attention reads them: stored (computed once, one byte per pair) or batch "
        "(measured again for every batch, on its device)",
        allowed=("stored", "batch"),
        neutral=True,
    ),
    "resample_negative": Key(
        False,
        "draw the negative pairs of PCQM-Contact anew in every epoch",
        only_with={"train.sampler": ["full_batch"]},
    ),
    "resample_disjoint": Key(False, "", inert=NO_EFFECT),
    "edge_train_mode": Key("all", "", inert=NO_EFFECT),
    "edge_message_ratio": Key(0.8, "", inert=NO_EFFECT),
    "edge_negative_sampling_ratio": Key(1.0, "", inert=NO_EFFECT),
    "transform": Key("none", "", inert=NO_EFFECT),
    "remove_feature": Key(False, "", inert=NO_EFFECT),
    "to_undirected": Key(False, "", inert=NO_EFFECT),
    "label_table": Key("none", "", inert=NO_EFFECT),
    "label_column": Key("none", "", inert=NO_EFFECT),
    "pe_transform_on_the_fly": Key(False, "", inert="encodings come from a cache here", neutral=True),
    "shuffle_split": Key(True, "", inert=NO_EFFECT),
    "encoder": Key(True, "", inert=NO_EFFECT),
    "encoder_name": Key("db", "", inert=NO_EFFECT),
    "encoder_bn": Key(True, "", inert=NO_EFFECT),
    "encoder_dim": Key(128, "", inert=NO_EFFECT),
    "edge_dim": Key(128, "", inert=NO_EFFECT),
    "cache_save": Key(False, "", inert=NO_EFFECT),
    "cache_load": Key(False, "", inert=NO_EFFECT),
    "tu_simple": Key(True, "", inert=NO_EFFECT),
    "location": Key("local", "", inert=NO_EFFECT),
}

PREP = {
    "exp": Key(False, "compute expander edges"),
    "exp_algorithm": Key(
        "Random-d", "how they are drawn", allowed=("Random-d", "Random-d-2", "Random-d2", "Hamiltonian")
    ),
    "use_exp_edges": Key(True, "attend along expander edges"),
    "exp_deg": Key(5, "permutations or cycles of the expander; its degree is twice that", minimum=1),
    "exp_max_num_iters": Key(100, "tries until the spectral gap is large enough", minimum=1),
    "add_edge_index": Key(True, "attend along the edges of the graph, too"),
    "num_virt_node": Key(0, "virtual nodes per graph", minimum=0),
    "exp_count": Key(1, "", inert="Exphormer stores further expanders and reads none of them", minimum=1),
    "add_self_loops": Key(False, "add self loops to node data sets"),
    "add_reverse_edges": Key(True, "make node data sets undirected"),
    "train_percent": Key(0.6, "share of training nodes in random splits", minimum=0.0, maximum=1.0),
    "layer_edge_indices_dir": Key(None, "", holds=str, optional=True, inert=NO_EFFECT),
    "dist_enable": Key(False, "", inert="distances are computed for the layers that read them"),
    "dist_cutoff": Key(510, "", inert="distances are computed for the layers that read them"),
}

_EIGEN = {
    "eigen.laplacian_norm": Key("sym", "normalisation of the Laplacian", allowed=("none", "sym", "rw")),
    "eigen.eigvec_norm": Key(
        "L2",
        "scale of the eigenvectors",
        allowed=("L1", "L2", "abs-max", "wavelength", "wavelength-asin", "wavelength-soft"),
    ),
    "eigen.max_freqs": Key(10, "smallest eigenpairs kept, the trivial ones included", minimum=1),
}

_KERNEL = {
    "kernel.times": Key([], "steps", item=int, minimum=0),
    "kernel.times_func": Key("", "steps as range(a, b[, c]); parsed, never evaluated"),
}

ENCODING = {
    "enable": Key(False, "compute this encoding"),
    "model": Key("none", "network that embeds the encoding"),
    "dim_pe": Key(16, "width of the embedding", minimum=1),
    "layers": Key(3, "layers of that network", minimum=0),
    "n_heads": Key(4, "heads, where the network is a Transformer", minimum=1),
    "post_layers": Key(0, "layers after summing over frequencies", minimum=0),
    "raw_norm_type": Key("none", "normalisation of the raw encoding"),
    "pass_as_var": Key(False, "", inert="every encoding travels on its own in the batch here"),
}

_RESISTANCE = {
    **ENCODING,
    "accuracy": Key(0.1, "relative error allowed in effective resistances", minimum=0.0),
    "er_dim": Key(
        None, "columns of the raw encoding; none: half the nodes of the largest graph", holds=int, optional=True
    ),
}

ENCODINGS: dict[str, dict[str, Key]] = {
    "posenc_LapPE": {**ENCODING, **_EIGEN},
    "posenc_RWSE": {**ENCODING, **_KERNEL},
    "posenc_HKdiagSE": {**ENCODING, **_KERNEL},
    "posenc_ElstaticSE": {
        **ENCODING,
        **_KERNEL,
        "kernel.times_func": Key("range(10)", "columns of the encoding as range(a, b[, c])"),
    },
    "posenc_RWSEEdge": {
        **ENCODING,
        **_KERNEL,
        "num_global": Key(2, "", inert=NO_EFFECT),
        "global_edge_dropout": Key(0.2, "", inert=NO_EFFECT),
    },
    "posenc_SignNet": {
        **ENCODING,
        **_EIGEN,
        "phi_out_dim": Key(4, "width of the sign-invariant features", minimum=1),
        "phi_hidden_dim": Key(64, "width inside the network that makes them", minimum=1),
    },
    "posenc_EquivStableLapPE": {**ENCODING, **_EIGEN},
    "posenc_EquivStableRWSE": {"enable": ENCODING["enable"], "raw_norm_type": ENCODING["raw_norm_type"], **_KERNEL},
    "posenc_GraphormerBias": {
        **ENCODING,
        "dim_pe": Key(0, "always 0: this encoding takes no columns", minimum=0),
        "node_degrees_only": Key(False, "encode degrees, without a bias of attention"),
        "degrees": Key(True, "encode degrees at all"),
        "num_spatial_types": Key(None, "distances that are told apart", holds=int, optional=True, minimum=1),
        "num_in_degrees": Key(None, "in-degrees that are told apart", holds=int, optional=True, minimum=1),
        "num_out_degrees": Key(None, "out-degrees that are told apart", holds=int, optional=True, minimum=1),
    },
    "posenc_AddLapPE": {
        "enable": ENCODING["enable"],
        "layers": Key(2, "layers of the network that embeds the encoding", minimum=1),
        **_EIGEN,
    },
    "posenc_RRWP": {
        "enable": ENCODING["enable"],
        "ksteps": Key(21, "random-walk probabilities per pair of nodes", minimum=1),
        "add_identity": Key(True, "the first of them is that of no step"),
        "spd": Key(False, "", inert="random-walk probabilities are not reduced to shortest paths"),
        "add_node_attr": Key(False, "", inert=NO_EFFECT),
        "add_inverse": Key(False, "", inert=NO_EFFECT),
    },
    "posenc_ERN": _RESISTANCE,
    "posenc_ERE": _RESISTANCE,
}
"""Groups of encodings in GraphGPS's vocabulary; those of other encoders are read from their constructors."""
