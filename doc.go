// Package vagen is the root of a library that trains agents which see:
// vision-language models that look at an image, reason in tagged text, act, and
// observe the result, turn after turn. The root itself holds no code.
//
// An episode is played by a policy in an environment; its tokens carry a mask and
// its turns carry rewards; an estimator turns both into advantages; the policy's
// learner takes a step; package train runs that loop. Each of these words is a
// package that works without the others:
//
//	mask              who wrote which token, and the masks that follow from it
//	advantage         estimators, from GAE to bi-level and group-relative ones
//	reward            response formats, shaping, normalisation, state rewards
//	env               the environment contract, a checker, and environments below it
//	policy            the policy and learner contracts; losses in plain Go below it
//	policy/vlm        Qwen2.5-VL and its relatives on XLA: generate, score, train, save
//	policy/engine     generates responses on servers of vLLM and SGLang
//	rollout           plays many episodes at once and records them; filters, diagnosis
//	rollout/evaluate  plays a policy over datasets of episodes and summarises them
//	train             the training loop, validation, imitation
//	train/config      keys, defaults, presets and validation of the configuration
//	train/track       events and the sinks that receive them
//	train/credit      what turns were worth, and how far estimators agree with that
//	train/proof       a chained record of a run, its check, and the first difference of two runs
//	train/engines     trains a model whose responses servers generate
//	train/run         from a configuration to a run with folder, checkpoints and resume
//
// docs/packages.md shows which package imports which. This program trains a model from a
// folder in the Hugging Face layout on FrozenLake. The files of the run are in
// runs/vagen/run; running the program again resumes it:
//
//	package main
//
//	import (
//		"context"
//		"errors"
//		"log"
//
//		"vagen/train/config"
//		"vagen/train/run"
//	)
//
//	func main() {
//		ctx := context.Background()
//		c, err := config.Load("", "env=frozenlake", "actor_rollout_ref.model.path=DIR", "trainer.total_training_steps=100")
//		if err != nil {
//			log.Fatal(err)
//		}
//		r, err := run.Open(ctx, c, run.Options{})
//		if err != nil {
//			log.Fatal(err)
//		}
//		if err := errors.Join(r.Train(ctx), r.Close()); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// One seed determines a run: every random draw is keyed by its purpose, so the same
// configuration gives the same bytes, whatever the number of workers.
//
// The method is VAGEN's (arXiv:2510.16907); configuration keys have the names
// that its users know.
package vagen
