"""``python -m fairpca.cli`` is the ``fairpca`` command."""

from fairpca.cli import main

if __name__ == "__main__":
    main()
