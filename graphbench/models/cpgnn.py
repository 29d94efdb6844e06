"""CPGNN: prior beliefs of a network, propagated with a learned compatibility of classes.

Zhu et al., Graph Neural Networks with Heterophily, https://arxiv.org/abs/2009.13566.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.contract import CountsOnHost, HasAuxiliaryLoss, ReadsTargets
from graphbench.errors import ArgumentError, check_at_least, check_one_of
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear
from graphbench.models.contract import EncodedModel, Frame
from graphbench.models.polyformer import polynomial_terms
from graphbench.models.requirements import check_per_node
from graphbench.ops.propagate import propagate
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.known_targets import known_targets

ORDERS = 3
"""Chebyshev polynomials of the network ``cheby``: T_0, T_1 and T_2."""
SINKHORN_STEPS, SINKHORN_TOLERANCE = 3000, 1e-12


@dataclass(frozen=True)
class BeliefSettings:
    """Network and propagation; every field is a key of the model.

    Attributes:
        network: network of the prior beliefs: ``mlp`` (one hidden layer) or ``cheby`` (two Chebyshev convolutions of
            order 2).
        iterations: steps of linear belief propagation.
        classes: K, of the task; 0: the hidden states are propagated in place of predictions, which graph heads need.
        pretrain: training steps of the network alone, before the compatibilities are estimated.
        cotrain: weight of the prior beliefs' own loss.
        prior_loss: that loss: ``cross_entropy`` as in the paper, or ``regulariser``: the released code adds what it
            regularises a second time in its place.
        l2: weight of the network's squared weights in the loss (Keras' ``l2``; ``optim.weight_decay`` would be twice
            that, and would shrink the compatibilities, too).
    """

    network: Literal["mlp", "cheby"] = "mlp"
    iterations: int = 1
    classes: int = 0
    pretrain: int = 0
    cotrain: float = 1.0
    prior_loss: Literal["cross_entropy", "regulariser"] = "cross_entropy"
    l2: float = 0.0

    def check(self) -> None:
        """Refuses values out of range."""
        check_at_least(0, iterations=self.iterations, pretrain=self.pretrain, classes=self.classes)
        check_one_of(("mlp", "cheby"), network=self.network)
        if self.prior_loss not in ("cross_entropy", "regulariser"):
            allowed = "cross_entropy or regulariser"
            raise ArgumentError("prior_loss", f"prior_loss must be {allowed}, received {self.prior_loss!r}")


class BeliefPropagation(CountsOnHost, nn.Module, HasAuxiliaryLoss):
    r"""Linear belief propagation with trained compatibilities H (K, K), centred at 1/K.

    .. math:: E = \mathrm{softmax}(P) - 1/K, \qquad B_0 = E, \qquad B_{l+1} = E + A B_l H, \qquad y = B_L + 1/K

    The first ``pretrain`` training steps return P. Then H is estimated from targets of training nodes
    (:func:`estimated_compatibility`), and trained with them. Left as auxiliary loss, with the known nodes V and the
    network's squared weights l2 * |W|^2, which are all of it before::

        R + cotrain * (1/|V|) sum over V of CE(P_i, y_i),   R = sum_i |sum_j H_ij| + l2 * |W|^2
        (1 + cotrain) * R                                   prior_loss: regulariser

    Args:
        classes: K.
        settings: iterations, lengths and weights.

    Shape:
        P (N, K) or, for two classes, the logit (N, 1) -> the same shape
    """

    counters: ClassVar[tuple[str, ...]] = ("step",)

    def __init__(self, classes: int, settings: BeliefSettings) -> None:
        super().__init__()
        self.settings = settings
        self.compatibility = nn.Parameter(torch.zeros(classes, classes))
        self.step = 0

    def forward(self, prior: Tensor, batch: GraphBatch, penalty: Tensor | None = None) -> Tensor:
        """Posterior beliefs as logits, or the prior ones while the network is trained alone.

        Args:
            prior: P.
            batch: the graph.
            penalty: () l2 * |W|^2, None for 0.
        """
        one_logit = prior.shape[1] == 1
        logits = F.pad(prior, (1, 0)) if one_logit else prior
        if logits.shape[1] != len(self.compatibility):
            raise ValueError(f"classes is {len(self.compatibility)}, the predictions have {logits.shape[1]} columns")
        if self.training:
            if self.step == self.settings.pretrain:
                self._estimate(logits, batch)
            self.step += 1
        if self.step <= self.settings.pretrain:
            self.auxiliary_loss = penalty if self.training else None
            return prior + 0.0 * self.compatibility.sum()  # processes wait for the gradient of every parameter
        self.auxiliary_loss = self._loss(logits, batch, penalty) if self.training else None
        belief = self._propagated(logits, batch)
        return belief[:, 1:] - belief[:, :1] if one_logit else belief

    def _propagated(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """(N, K) posterior beliefs."""
        classes = logits.shape[1]
        centred = logits.softmax(1) - 1 / classes
        belief, adjacency = centred, batch.adjacency()
        for _ in range(self.settings.iterations):
            belief = centred + propagate(adjacency, belief @ self.compatibility)
        return belief + 1 / classes

    @torch.no_grad()
    def _estimate(self, logits: Tensor, batch: GraphBatch) -> None:
        known = known_targets(batch)
        if known is not None and batch.y is not None:
            self.compatibility.copy_(estimated_compatibility(logits, batch.y, known, batch))

    def _loss(self, logits: Tensor, batch: GraphBatch, penalty: Tensor | None) -> Tensor:
        """() of a step after pretraining."""
        loss, weight = self.compatibility.sum(1).abs().sum(), self.settings.cotrain
        if penalty is not None:
            loss = loss + penalty
        if self.settings.prior_loss == "regulariser":
            return (1 + weight) * loss
        known = known_targets(batch)
        if known is None or batch.y is None:
            return loss
        each = F.cross_entropy(logits, batch.y.view(-1).long(), reduction="none")
        return loss + weight * (each * known).sum() / known.sum()


@register("CPGNN")
class CPGNN(EncodedModel, ReadsTargets):
    r"""Belief propagation with a compatibility matrix, on prior beliefs of an MLP or a Chebyshev network.

    Rounds: :class:`BeliefPropagation`.

    Networks (released setups M64-D-R-MO and GGM64-VS-R-G-GMO-VS), T_0 = I, T_1 = -A^, T_2 = 2 A^^2 - I and
    A^ = D^-1/2 A D^-1/2::

        mlp     P = head(relu(drop(X W)))
        cheby   P = head([T_0 h | T_1 h | T_2 h]),   h = relu(drop(sum_k T_k X W_k))

    Args:
        frame: encoder, widths, factory of the head, a linear map (``gnn.layers_post_mp: 1``).
        dropout: dropout of the hidden layer (``gnn.dropout``).
        beliefs: keys of their own, see :class:`BeliefSettings`.

    Shape:
        batch -> prediction of the head, (N, K) with ``classes``

    Differences from the paper and the released code: the head has a bias. Self loops stay. Isolated nodes do not count
    in the estimate of H (there as zeros, which the scaling to equal sums cancels). Propagation starts from the network
    as the last pretraining step left it, not from its best epoch. Training steps are counted on the host. Maps begin
    as there, with Glorot and Bengio's uniform numbers.
    """

    def __init__(
        self,
        frame: Frame,
        *,
        dropout: FromContext[float] = 0.0,
        beliefs: BeliefSettings = BeliefSettings(),
    ) -> None:
        super().__init__(frame.encoder)
        dim = frame.dim
        beliefs.check()
        orders = ORDERS if beliefs.network == "cheby" else 1
        self.dim = dim
        self.lin = InputLinear(frame.dim_encoded, orders * dim, bias=False)
        self.dropout = Dropout(dropout)
        self.head = frame.head(orders * dim)
        self.of_predictions = bool(beliefs.classes)
        self.propagation = BeliefPropagation(beliefs.classes or dim, beliefs)
        for part in [*self.lin.weight.split(dim), *(module.weight for module in self._maps()[1:])]:
            nn.init.xavier_uniform_(part)

    def _maps(self) -> list[nn.Linear]:
        """The network's linear maps; that of the features is the first."""
        return [self.lin, *(module for module in self.head.modules() if isinstance(module, nn.Linear))]

    def _penalty(self) -> Tensor | None:
        """() l2 * |W|^2, None where it is not asked for."""
        weight = self.propagation.settings.l2
        if not self.training or not weight:
            return None
        return weight * torch.stack([module.weight.square().sum() for module in self._maps()]).sum()

    def forward(self, batch: GraphBatch) -> Tensor:
        """Posterior beliefs."""
        x, _, batch = self.encode(batch)
        mapped: Tensor = self.lin(x)
        h = self.dropout(_chebyshev_sum(mapped.split(self.dim, 1), batch)).relu()
        if not self.of_predictions:
            h = self.propagation(h, batch, self._penalty())
        if mapped.shape[1] > self.dim:
            h = torch.cat(polynomial_terms(h, batch, ORDERS - 1, "cheb"), 1)
        prediction: Tensor = self.head(h, batch)
        if not self.of_predictions:
            return prediction
        check_per_node(prediction, batch, "classes")
        return self.propagation(prediction, batch, self._penalty())


def _chebyshev_sum(parts: tuple[Tensor, ...], batch: GraphBatch) -> Tensor:
    """sum_k T_k h_k; of one part, itself."""
    if len(parts) == 1:
        return parts[0]
    adjacency = batch.adjacency(norm="sym")
    h0, h1, h2 = parts
    inner = 2 * propagate(adjacency, h2) - h1  # Clenshaw: T_1 h_1 + T_2 h_2 = A^ (2 A^ h_2 - h_1) - h_2
    return h0 - h2 + propagate(adjacency, inner)


def estimated_compatibility(logits: Tensor, y: Tensor, known: Tensor, batch: GraphBatch) -> Tensor:
    r"""Centred compatibilities (K, K), from the classes around training nodes.

    Row c is the mean, over training nodes of class c, of D^-1 A Z, where Z has the target of every training node and
    softmax of the prior elsewhere; then scaled to row and column sums of 1 (Sinkhorn and Knopp), made symmetric, and
    lowered by 1/K. Where no training node has class c, row c is column c, and what both lack is shared equally.

    Args:
        logits: (N, K) prior beliefs.
        y: (N,) targets.
        known: (N,) bool, which of them may be read.
        batch: the graph.
    """
    classes = logits.shape[1]
    one_hot = F.one_hot(y.view(-1).long().clamp(0, classes - 1), classes).to(logits.dtype) * known.unsqueeze(1)
    belief = torch.where(known.unsqueeze(1), one_hot, logits.softmax(1))
    around = propagate(batch.adjacency(norm="row"), belief)
    counted = one_hot * (around.sum(1, keepdim=True) > 0)
    estimate = (counted.t() @ around) / counted.sum(0).unsqueeze(1)  # 0 / 0 where a class has no training node
    estimate = torch.where(estimate.isnan(), estimate.t(), estimate)
    lacking = estimate.isnan()
    present = estimate.masked_fill(lacking, 0.0)
    share = (1 - present.sum(1, keepdim=True)) / lacking.sum(1, keepdim=True).clamp(min=1)
    estimate = doubly_stochastic(torch.where(lacking, share, present))
    return (estimate + estimate.t()) / 2 - 1 / classes


def doubly_stochastic(matrix: Tensor) -> Tensor:
    """A matrix of non-negative numbers scaled so that columns and rows sum to 1, as far as they can."""
    for _ in range(SINKHORN_STEPS):
        previous = matrix
        matrix = matrix / matrix.sum(0, keepdim=True).clamp(min=torch.finfo(matrix.dtype).tiny)
        matrix = matrix / matrix.sum(1, keepdim=True).clamp(min=torch.finfo(matrix.dtype).tiny)
        if bool((matrix - previous).abs().sum() < SINKHORN_TOLERANCE):
            break
    return matrix
