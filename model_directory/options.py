"""The options of training, as config.json keeps them: defaults, and which of them may change."""

DEFAULTS = {
    "update": "gradient",
    "tokenizer": "bpe",
    "vocab_size": 8000,  # BPE pieces; 4,000 to 10,000 suit 10^4 to 10^6 pairs.
    "min_word_count": 2,  # Words seen once teach the model what UNK is.
    "vocab_file": "",
    "max_length": 256,
    "max_length_ratio": 9.0,  # Only what cannot be a translation.
    "max_tokens_per_batch": 4096,
    "max_sentences_per_batch": 0,
    "accumulate_steps": 1,
    "pad_to_bucket": False,
    "largest_batch_first": False,
    "corpus_weights": "",
    "temperature": 1.0,
    "learning_rate": 7e-4,  # (512 * 4000) ** -0.5, the peak of Vaswani et al. 2017 for base.
    "warmup_steps": 4000,
    "schedule": "inverse_sqrt",
    "decay_steps": 0,
    "plateau_patience": 2,
    "plateau_factor": 0.5,
    "optimizer": "adam",
    "adam_beta_2": 0.98,
    "weight_decay": 0.01,  # Only of adamw.
    "loss_average": "tokens",
    "label_smoothing": 0.1,
    "clip_norm": 1.0,
    "max_steps": 0,
    "max_epochs": 0,
    "max_minutes": 0.0,
    "patience": 10,
    "eval_every_steps": 500,
    "save_every_steps": 500,
    "log_every_steps": 50,
    "average_checkpoints": 5,
    "max_bad_steps": 10,
    "ema_decay": 0.0,
    "keep_best_by": "perplexity",
    "init_from": "",
    "bleu_lines": 1000,
    "precision": "float32",
    "jit_compile": False,
    "intra_op_threads": 0,
    "seed": 1,
    "model1_steps": 0,
    "model2_steps": 0,
    "alpha": 0.0,
    "reverse_model_dir": "",
}

# Two runs that differ in one of these are one run: they may change when a run goes on.
LIMITS = (
    "max_steps",
    "max_epochs",
    "max_minutes",
    "patience",
    "eval_every_steps",
    "save_every_steps",
    "log_every_steps",
    "average_checkpoints",
    "max_bad_steps",
    "bleu_lines",
    "intra_op_threads",
)
