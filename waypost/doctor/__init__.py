"""Is this installation well? Versions, extras, devices, folders, and a short training that must give equal actions.

Nothing here imports NumPy or JAX before it is looked at: a broken installation is what this is for.
"""
