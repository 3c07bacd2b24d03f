// Package policy is the interface between an agent's model and the rest of the library.
//
// A Policy answers conversations with responses. It reports every token that it read and
// wrote, with log-probs, and keeps these tokens for the next turn, so that nothing is
// tokenised twice. A Learner is a Policy that also scores rows of tokens and takes
// optimiser steps on them. Package policy/vlm is a Learner for vision-language models;
// package policy/chat has policies behind an API, which cannot learn. Package policy/loss
// has the losses in plain Go.
package policy
