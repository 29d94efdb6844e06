"""Does on purpose what happens by accident, to the program as users start it, and counts what it promised to survive.

``python -m scripts.torture --out REPORT.json [--seed S] [--kills N] [--files N] [--configs N] [--commands N] ...``

Every case is a process of its own that runs ``main.py``'s command line on a model that trains in a second. A case is a
defect when it ends in a traceback, with an exit code other than 0, 2, 3 or 130, hangs, takes more than 2 GiB, leaves a
half-written file, or ends with other numbers than the undisturbed run. All choices follow from the seed.
"""
