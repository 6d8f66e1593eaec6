"""`kappa` as spark-submit starts it: `spark-submit --properties-file spark.conf deploy/submit.py run extract`.

A script of its own, because Python puts the script's folder in front of its path: from `app/` its modules would have two names.
"""

from app.cli.main import main

if __name__ == "__main__":
    main()
