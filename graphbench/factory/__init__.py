"""Construction of objects from a configuration.

Every component is built by :func:`graphbench.registry.construct`: an argument comes from the component's section of the
configuration, else (``FromContext``) from the context, a dataclass filled in these modules, else it keeps its default::

    config = load_config("configs/quickstart.yaml")
    model = build_model(config, declared_info(config))  # factory.model, factory.data
    optimizer = build_optimizer(config, model)  # factory.training

- ``data``, ``transforms``, ``split_data``, ``loaders``: data set, splits, encodings, data of one run, batches.
- ``model``, ``encoders``, ``layers``, ``layer_groups``, ``pretrained``: the model and its parameters.
- ``outline``, ``unread``: what can be known of a model without its data, and the settings that nothing reads.
- ``task``, ``training``, ``wandb_name``: loss, metrics, optimiser, schedule, loggers.
- ``compat``: arguments that GraphGPS and its forks choose differently.
- ``config_errors``: messages of components with file, line and key.

Besides ``config`` and the entry points (``experiment``, ``sweeps``, command lines) no package reads a configuration.
"""
