"""The only translator from configuration to objects.

Every component is built by :func:`graphbench.registry.construct`: what its own section of the configuration says,
else what the surroundings supply under the parameter's name (the dictionaries in these files), else the constructor's
default. Outside this package and ``config`` nothing reads a configuration.
"""
