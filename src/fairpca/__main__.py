"""``python -m fairpca`` is the ``fairpca`` command."""

from fairpca.cli import main

if __name__ == "__main__":
    main()
