"""Training: objectives, penalties, and solvers that do not depend on CRFs.

A solver contains settings; its minimiser has a method ``solve(objective, penalty, w0)``, which returns a
:class:`SolverReport`.
"""
