"""The two branches of :class:`~graphbench.models.two_branch.TwoBranch`: attention and message passing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from graphbench.blockwise.forward import Blockwise
from graphbench.errors import ArgumentError, check_at_least, check_one_of, check_within
from graphbench.layers.activation import activation
from graphbench.layers.contract import Attention, LocalLayer, StatefulAttention
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear, readable
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm, LayerNorm, NoNorm
from graphbench.layers.sharing import tie_layers
from graphbench.structures import Features, GraphBatch
from graphbench.structures.node_blocks import HostRows


@dataclass(frozen=True)
class AttentionSettings:
    """The attention branch; every field is a key of the model.

    Attributes:
        attention_dropout: dropout after the first map and after every layer; None: ``dropout`` of the model.
        attention_norm: LayerNorm after the first map and after every layer.
        attention_act: activation after every layer too, not only after the first map.
        attention_residual: ``none``; ``mix``: alpha new + (1 - alpha) old; ``mean``: (new + old) / 2; ``sum``.
        alpha: weight of the new state in ``mix``.
        attention_jump: what the branch returns: the state of the ``last`` layer, or with ``cat`` those of the first map
            and of all layers side by side (NodeFormer's ``--use_jk``).
    """

    attention_dropout: float | None = None
    attention_norm: bool = False
    attention_act: bool = False
    attention_residual: Literal["none", "mix", "mean", "sum"] = "none"
    alpha: float = 0.5
    attention_jump: Literal["last", "cat"] = "last"


@dataclass(frozen=True)
class LocalSettings:
    """The local branch; every field is a key of the model.

    Attributes:
        local_layers: depth.
        local_dropout: dropout after every layer that has an activation; None: ``dropout`` of the model.
        local_input_dropout: dropout of the input of the branch.
        local_norm: BatchNorm.
        local_stem: starts with a linear map, see :class:`LocalBranch`.
        local_residual: add the output of that map after every layer.
        local_init: every layer reads the output of that map as well.
    """

    local_layers: int = 2
    local_dropout: float | None = None
    local_input_dropout: float = 0.0
    local_norm: bool = False
    local_stem: bool = False
    local_residual: bool = False
    local_init: bool = False


class AttentionBranch(nn.Module):
    r"""Z_0 = drop(act(norm(W X)));  Z_l = drop([act] norm(residual(attention_l(Z_{l-1}), Z_{l-1}))).

    Args:
        dim_in: width of the input.
        dim: width of the branch.
        layers: attention layers.
        settings: norm, activation, residual.
        act: name of the activation.
        dropout: probability, unless the settings have their own.

    Attributes:
        width: columns of the output: ``dim``, or with ``attention_jump: cat`` (L + 1) ``dim``.

    Shape:
        (N, dim_in) -> (N, width)

    Raises:
        ArgumentError: a setting out of range, or an attention that passes state from layer to layer.
    """

    def __init__(
        self,
        dim_in: int,
        dim: int,
        layers: Sequence[Attention],
        settings: AttentionSettings,
        *,
        act: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_one_of(("none", "mix", "mean", "sum"), attention_residual=settings.attention_residual)
        check_one_of(("last", "cat"), attention_jump=settings.attention_jump)
        check_within(0, 1, alpha=settings.alpha)
        for layer in layers:
            if isinstance(layer, StatefulAttention):
                raise ArgumentError(
                    "attention",
                    f"the attention {type(layer).__name__} passes state from layer to layer, which this model does not "
                    "keep; use model.type GPSModel",
                )
        self.lin_in = InputLinear(dim_in, dim)
        self.layers: Modules[Attention] = Modules(layers)
        tie_layers(self.layers)
        self.norms = nn.ModuleList(
            LayerNorm(dim) if settings.attention_norm else nn.Identity() for _ in range(len(layers) + 1)
        )
        self.act = activation(act)
        self.act_every_layer = settings.attention_act
        self.dropout = Dropout(dropout if settings.attention_dropout is None else settings.attention_dropout)
        self.adds_input = settings.attention_residual == "sum"
        self.jumps = settings.attention_jump == "cat"
        self.width = dim * (len(layers) + 1) if self.jumps else dim
        self.weight_new = {"mix": settings.alpha, "mean": 0.5}.get(settings.attention_residual)

    def forward(self, x: Features, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """(N, width) after all attention layers."""
        z = self._enter(x)
        states = [z]
        for number, attention in enumerate(self.layers):
            z = self._finish(attention.step(z, e, batch)[0], z, number=number)
            states = [*states, z] if self.jumps else [z]
        return _side_by_side(*states) if self.jumps else z

    def forward_blockwise(self, x: HostRows, e: HostRows | None, blocks: Blockwise) -> HostRows:
        """:meth:`forward` for one graph in blocks."""
        z = blocks.rows(self._enter, x)
        states = [z]
        for number, attention in enumerate(self.layers):
            z = blocks.attend(attention, z, then=partial(self._finish, number=number), e=e)
            states = [*states, z] if self.jumps else [z]
        return blocks.rows(_side_by_side, *states) if self.jumps else z

    def _enter(self, x: Features, batch: GraphBatch | None = None) -> Tensor:
        """Z_0."""
        return self.dropout(self.act(self.norms[0](self.lin_in(x))))

    def _finish(self, new: Tensor, z: Tensor, number: int) -> Tensor:
        """Z_l from the output of attention layer ``number`` and Z_{l-1}."""
        if self.weight_new is not None:
            new = between(z, new, self.weight_new)
        elif self.adds_input:
            new = z + new
        new = self.norms[number + 1](new)
        if self.act_every_layer:
            new = self.act(new)
        return self.dropout(new)


class LocalBranch(nn.Module):
    r"""A stack of local layers, in one of the two forms of the released code.

    Without stem (medium graphs), on the raw input; nothing follows the last layer:
        H_0 = X;  H_l = drop(act(norm(local_l(H_{l-1}))));  H_L = local_L(H_{L-1})
    With stem (large graphs), all layers alike:
        H_0 = drop(act(norm(W X)));  H_l = drop(act(norm(local_l(H_{l-1}) [+ W_l H_0]))) [+ H_0]

    ``local_residual`` is the term ``+ H_0``, an *initial* residual; ``local_init`` the term ``+ W_l H_0``. The released
    code writes the latter as one map of [A H | H_0], with the same parameters; here it is two maps, each initialised by
    its width.

    Args:
        dim_in: width of the input.
        dim: width of the branch.
        local: factory of local layers, from their widths.
        settings: depth, norm, form.
        act: name of the activation.
        dropout: probability, unless the settings have their own.

    Shape:
        (N, dim_in) -> (N, dim)

    Raises:
        ArgumentError: a setting out of range, or one that needs the stem.
    """

    def __init__(
        self,
        dim_in: int,
        dim: int,
        local: Callable[[int, int], LocalLayer],
        settings: LocalSettings,
        *,
        act: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        layers, stem = settings.local_layers, settings.local_stem
        check_at_least(1, local_layers=layers)
        if (settings.local_residual or settings.local_init) and not stem:
            raise ArgumentError(
                ("local_residual", "local_init", "local_stem"),
                "local_residual and local_init add the output of the stem; set local_stem to true",
            )
        self.lin_in = InputLinear(dim_in, dim) if stem else None
        widths = [dim if stem else dim_in] + [dim] * (layers - 1)
        self.layers: Modules[LocalLayer] = Modules(local(width, dim) for width in widths)
        self.init_maps = nn.ModuleList(
            nn.Linear(dim, dim, bias=False) for _ in range(layers if settings.local_init else 0)
        )
        norms = layers + 1 if stem else layers - 1
        self.norms = nn.ModuleList(BatchNorm(dim) if settings.local_norm else NoNorm() for _ in range(norms))
        self.act = activation(act)
        self.dropout = Dropout(dropout if settings.local_dropout is None else settings.local_dropout)
        self.input_dropout = Dropout(settings.local_input_dropout)
        self.residual = settings.local_residual

    def forward(self, x: Features, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """(N, dim) after all local layers."""
        x = self.input_dropout(x)
        initial = None if self.lin_in is None else self._enter(x, batch)
        h = x if initial is None else initial
        for number, layer in enumerate(self.layers):
            new, e, _ = layer.step(readable(h, layer), e, batch)
            h = self._finish(new, initial, number=number, batch=batch)
        assert isinstance(h, Tensor)  # there is a layer
        return h

    def forward_blockwise(self, x: HostRows, e: HostRows | None, blocks: Blockwise) -> HostRows:
        """:meth:`forward` for one graph in blocks."""
        initial = None if self.lin_in is None else blocks.rows(self._enter, x)
        h = x if initial is None else initial
        others = () if initial is None else (initial,)
        for number, layer in enumerate(self.layers):
            h, e = blocks.messages(layer, h, e, *others, then=partial(self._finish, number=number))
        return h

    def _enter(self, x: Features, batch: GraphBatch | None = None) -> Tensor:
        """H_0, with stem."""
        assert self.lin_in is not None
        return self.dropout(self.act(self.norms[0](self.lin_in(x), batch)))

    def _finish(
        self, new: Tensor, initial: Tensor | None = None, *, number: int, batch: GraphBatch | None = None
    ) -> Tensor:
        """H_l from the output of local layer ``number``; ``initial`` is the output of the stem, if any."""
        if initial is None:
            if number < len(self.layers) - 1:
                new = self.dropout(self.act(self.norms[number](new, batch)))
            return new
        if self.init_maps:
            new = new + self.init_maps[number](initial)
        new = self.dropout(self.act(self.norms[number + 1](new, batch)))
        return new + initial if self.residual else new


def _side_by_side(*states: Tensor, batch: GraphBatch | None = None) -> Tensor:
    return torch.cat(states, dim=1)


def between(start: Tensor, end: Tensor, weight: float) -> Tensor:
    """(1 - weight) start + weight end, in the wider of their types (autocast leaves one in half precision)."""
    wide = torch.promote_types(start.dtype, end.dtype)
    return torch.lerp(start.to(wide), end.to(wide), weight)
