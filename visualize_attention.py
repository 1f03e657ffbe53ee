"""Draws the attention of a trained model. See --help, and command_line/visualize_attention.py."""

from nmt_zoo.command_line.visualize_attention import command

if __name__ == "__main__":
    command()
