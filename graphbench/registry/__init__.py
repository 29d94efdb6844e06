"""Names -> components. Adding a component is adding one file; its base class and its signature are its description.

::

    from graphbench.layers.contract import GlobalAttention
    from graphbench.registry import FromContext, register

    @register("MeanField")
    class MeanField(GlobalAttention):
        def __init__(self, dim: FromContext[int], *, scale: float = 1.0): ...

- A component lies in a namespace (``layers/attention``), a package of the same path below ``graphbench``. Its modules
  are read as text to find the names they register; a module is imported when one of its names is looked up.
- Every namespace has a base class and a context (:data:`NAMESPACES`). :func:`register` refuses what does not derive
  from the base class, lacks one of its abstract members, or asks the context for what it does not offer. Its constant
  knows the base class as a type: ``lookup(HEADS, name)`` is a ``type[Head]``, which :func:`construct` makes a ``Head``.
- A parameter annotated ``FromContext[T]`` is filled from the context (widths, heads, dropout, ...); every other
  parameter is a key of the configuration below the component's name, with its type and default (without annotation:
  the type of its default). A key that the user sets wins over the context, unless it is ``fixed`` there: a width of
  what the component is handed or asked for.
- A parameter whose type is a dataclass stands for the dataclass's fields: settings that several components have in
  common, or a constructor's many settings in groups. Keys are named as the fields.
"""

from graphbench.registry.namespaces import (
    ATTENTIONS,
    BLOCKS,
    DATASETS,
    EDGE_ENCODERS,
    FAMILIES,
    HEADS,
    LOCAL_LAYERS,
    LOSSES,
    METRICS,
    MODELS,
    NAMESPACES,
    NODE_ENCODERS,
    OPTIMIZERS,
    POSITIONAL_ENCODERS,
    SAMPLERS,
    SCHEDULES,
    TRANSFORMS,
    Namespace,
    base_class,
    context_class,
)
from graphbench.registry.registrations import (
    Construction,
    components,
    construct,
    constructions,
    forget,
    group_of,
    is_known,
    lookup,
    names,
    names_of_users,
    register,
    register_family_member,
)
from graphbench.registry.signature import UNSET, FromContext, OrInfinity, Parameter, parameters

__all__ = [
    "ATTENTIONS",
    "BLOCKS",
    "DATASETS",
    "EDGE_ENCODERS",
    "FAMILIES",
    "HEADS",
    "LOCAL_LAYERS",
    "LOSSES",
    "METRICS",
    "MODELS",
    "NAMESPACES",
    "NODE_ENCODERS",
    "OPTIMIZERS",
    "POSITIONAL_ENCODERS",
    "SAMPLERS",
    "SCHEDULES",
    "TRANSFORMS",
    "UNSET",
    "Construction",
    "FromContext",
    "Namespace",
    "OrInfinity",
    "Parameter",
    "base_class",
    "components",
    "construct",
    "constructions",
    "context_class",
    "forget",
    "group_of",
    "is_known",
    "lookup",
    "names",
    "names_of_users",
    "parameters",
    "register",
    "register_family_member",
]
