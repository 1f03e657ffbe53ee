"""Compares translations of one text by several systems. See nmt_zoo/command_line/compare.py."""

from nmt_zoo.command_line.compare import command

if __name__ == "__main__":
    command()
