// Package policy is the contract between an agent's model and everything around
// it.
//
// A Policy answers conversations with responses. What it read and wrote is
// reported token by token, with log-probs, and kept: token in, token out.
// A Learner is a Policy that also scores rows of tokens and takes optimiser
// steps on them. Package policy/vlm is a Learner for vision-language models,
// package policy/chat holds policies behind an API, which cannot learn. The
// losses in plain Go are in package policy/loss.
package policy
