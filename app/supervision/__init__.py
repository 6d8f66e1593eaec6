"""`kappa run` as two processes: a small parent, and a child that runs the jobs and is started again when it ends or hangs."""
