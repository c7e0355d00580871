"""Training: objectives, penalties, and solvers, which are independent of CRFs.

A solver has a method ``solve(objective, penalty, w0)``, which returns a :class:`SolverReport`.
"""
