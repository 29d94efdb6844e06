"""Words that configurations and data sets share, apart from everything that needs PyTorch: parsing stays fast."""

TASKS = ("graph", "node", "edge", "link_pred")
TASK_TYPES = (
    "regression",
    "classification",
    "classification_binary",
    "classification_multi",
    "classification_multilabel",
    "subtoken_prediction",
)
