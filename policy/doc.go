// Package policy is the interface between an agent's model and the rest of the library.
//
// A Policy answers conversations with responses. It reports every token that it read and
// wrote, with log-probs, and keeps these tokens for the next turn, so that nothing is
// tokenised twice. A Learner is a Policy that also scores rows of tokens and takes
// optimiser steps on them. Package policy/vlm is a Learner for vision-language models;
// package policy/chat has policies behind an API, which cannot learn. Package policy/loss
// has the losses in plain Go.
//
//	Policy      answers conversations; Learner also scores rows of tokens and trains
//	Prompt      asks for the next response of a conversation: each Message has text and images
//	Completion  is a response with its tokens; Sampling says how responses are drawn
//	Ask         puts questions to a policy, each in a conversation of its own
//	Rows        tokens of many conversations; Batch adds what an update reads
//	Objective   the loss of an update; Objective.Eval computes it in plain Go
//	Optimizer   the settings of an optimiser step; Stats is what it reports
//
// What a policy can do besides, its abilities, is in small interfaces: Counter, Encoder, Resumer,
// Snapshotter, Exporter and others. Callers look for them with As, also in policies that are wrapped.
package policy
