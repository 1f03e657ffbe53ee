"""Trains a translation model. See --help, and nmt_zoo/command_line/train.py."""

from nmt_zoo.command_line.train import command

if __name__ == "__main__":
    command()
