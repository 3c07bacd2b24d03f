// Package sft has the data of supervised training: it reads examples, converts them to rows
// of tokens with weights, and divides the rows into batches.
//
// Examples come from three sources, which may be combined:
//
//	conversations     messages with texts and images, in JSON lines or parquet
//	recorded episodes files of package rollout/store, token for token as they were played
//	lessons           episodes of an environment that one of its scripts plays (env.Teacher)
//
//	Open          reads the examples of a configuration and completes its number of steps
//	Data.Encode   tokenises them with a policy.Encoder and checks their lengths
//	Data.Batch    the batch of an optimiser step
//	Data.Held     the held-out rows, in batches
//
// # What is learned
//
// Only tokens that the assistant wrote have a weight, with the token that ends its turn.
// sft.turns selects the assistant's first or last message, and the field weight of a message
// multiplies the weight of its tokens. Tokens of other roles, of the chat template, and
// tokens of recorded episodes that were forced, have weight 0. The loss of a batch is
//
//	token-mean            Σ w·ℓ / Σ w over all tokens of the batch
//	token-count           Σ w·ℓ / the number of tokens with w above 0
//	seq-mean-token-mean   the mean over rows of Σ w·ℓ / Σ w of the row
//
// with ℓ the negative log-prob of a token, times its probability if sft.loss_type is dft.
//
// # Determinism
//
// The order of the rows depends on the seed and the epoch only, and a batch only on the seed and
// the number of its step: training that resumes after any step reads the same batches.
package sft
