"""The part of Europarl that europarl10k.py and coursework.py train on, and shared flags."""

from absl import flags

CORPUS = "europarl10k_de_en"
# Words that occur once become UNK.
WORDS = ["--tokenizer=word", "--max_words=0", "--min_word_count=2"]
# The own sizes of lstm_lexical, those of lstm_luong; for files, train.py would choose larger ones.
SMALL = [
    *("--set=embedding_width=64", "--set=encoder_units=64", "--set=decoder_units=128"),
    *(f"--set={name}=0.25" for name in ("embedding_dropout", "dropout", "output_dropout")),
]

flags.DEFINE_string("data_dir", "data", "Folder for the text, as in train.py.")


def file_of(split, language):
    """Returns the path of one side of a split, which train.py has downloaded."""
    return f"{flags.FLAGS.data_dir}/{CORPUS}/{split}.{language}"


def corpus_flags():
    """Returns the flags of train.py for this text."""
    return [f"--dataset={CORPUS}", f"--data_dir={flags.FLAGS.data_dir}"]
