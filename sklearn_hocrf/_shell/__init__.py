"""The command-line interface, which uses only public names, ``_data`` and the list of kernels."""
