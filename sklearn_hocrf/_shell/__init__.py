"""The command line, which uses public names as any user does."""
