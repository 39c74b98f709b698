"""Check an installation: versions, extras, devices, folders, and a short training.

Nothing here imports NumPy or JAX at the top: these checks must work in a broken installation.
"""
