"""Makes a model directory of a public pretrained model. See command_line/import_model.py."""

from nmt_zoo.command_line.import_model import command

if __name__ == "__main__":
    command()
