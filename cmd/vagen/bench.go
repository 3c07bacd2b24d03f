package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"vagen/internal/bench"
	"vagen/internal/cli"
	"vagen/policy/vlm"
	"vagen/policy/vlm/hub"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		About: "Time a model's training, prefill, decoding or scoring.",
		Help: `Every mode uses rows of random tokens of equal length, and first runs one untimed step
for compilation. Times are medians. In decode a step is a token of every row; parts of
several devices, or of more rows than a batch has, are timed one after another. Other work
on the machine affects the CPU time less than the wall time. Memory is the peak of the process, including loading.

"least work" is what a step must do: bytes of weights, caches, gradients and moments, and
floating-point operations of matrix products, those of masked or repeated products in
brackets. "this machine" is what programs that only read memory or only multiply matrices
reached in the same run, and "used" the step's share of both.`,
		JSON: "write one line of JSON",
		Setup: func(f *flag.FlagSet) cli.Run {
			dir := f.String("model", "", "`folder` of the model, or its id on the hub")
			var c bench.Config
			f.Func("mode", "what to time: train, prefill, decode or logprob", func(s string) error { c.Mode = bench.Mode(s); return nil })
			f.IntVar(&c.Batch, "batch", 8, "rows")
			f.IntVar(&c.Seq, "seq", 128, "tokens per row; in prefill and decode, of its prompt")
			f.Float64Var(&c.Temperature, "temperature", 0, "of decode; 0 chooses the most likely token")
			f.Float64Var(&c.TopP, "top-p", 0, "of decode: draw from the smallest set with this probability; 0 is all tokens")
			f.IntVar(&c.Steps, "steps", 5, "timed steps; decode uses at least 16")
			options := modelFlags(f)
			recomputeFlag(f, options)
			return func(ctx context.Context, call *cli.Call) error {
				if err := checkBench(*dir, c, call); err != nil {
					return err
				}
				m, err := openModel(ctx, call, *dir, options)
				if err != nil {
					return err
				}
				defer m.Close()
				r, err := bench.Run(ctx, m, c)
				if err != nil {
					return asUsage(err, badInput...)
				}
				if call.AsJSON {
					return json.NewEncoder(call.Out).Encode(r)
				}
				return call.Table([][]string{
					{"model", r.Model + " on " + r.Backend},
					{"work", fmt.Sprintf("%s, %d rows of %d tokens", r.Mode, r.Batch, r.Seq)},
					{"step", fmt.Sprintf("%.2f ms, %.2f ms CPU time", r.MillisPerStep, r.CPUPerStep)},
					{"speed", fmt.Sprintf("%.1f tokens per second", r.TokensPerSecond)},
					{"least work", fmt.Sprintf("%.4g GB, %.4g GFLOP (%.4g executed)", float64(r.Bytes)/1e9, float64(r.FLOPs)/1e9, float64(r.HardwareFLOPs)/1e9)},
					{"this machine", fmt.Sprintf("%.4g GB/s, %.4g GFLOP/s", r.MemoryLimit/1e9, r.ComputeLimit/1e9)},
					{"used", fmt.Sprintf("%.1f %% of memory, %.1f %% of compute (%.1f %% executed); %s binds: at least %.2f ms",
						100*r.MemoryUse, 100*r.ComputeUse, 100*r.HardwareUse, r.Bound, r.LeastMillis)},
					{"first step", fmt.Sprintf("%.2f s", r.FirstStep)},
					{"compiling", fmt.Sprintf("%.2f s", r.CompileSeconds)},
					{"devices", fmt.Sprintf("%d, exchanging gradients and weights %.1f %% of a step", r.Devices, 100*r.ExchangeShare)},
					{"peak memory", fmt.Sprintf("%.1f MB, %.1f MB planned", float64(r.PeakRSS)/1e6, float64(r.PlannedBytes)/1e6)},
				})
			}
		},
	}
}

// checkBench refuses what cannot be timed, and flags that have no effect in a mode.
func checkBench(dir string, c bench.Config, call *cli.Call) error {
	if dir == "" {
		return cli.Usagef("--model is missing")
	}
	if err := c.Check(); err != nil {
		return cli.Usagef("%w", err)
	}
	why, decoding := "--mode "+string(c.Mode), []string{"rollout-dtype", "tokens-per-call", "draft-tokens"}
	var err error
	switch c.Mode {
	case bench.Train, bench.LogProb:
		err = call.Idle(why+" generates nothing", append(decoding, "cache-tokens", "share-prefix")...)
	case bench.Prefill:
		err = call.Idle(why+" decodes no token", decoding...)
	}
	if err == nil && c.Mode != bench.Train {
		err = call.Idle(why+" has no backward pass", "recompute")
	}
	return err
}

func recomputeFlag(f *flag.FlagSet, o *vlm.Options) {
	f.Func("recompute", "what the backward pass recomputes: nothing, attention or blocks", func(s string) error {
		o.Recompute = vlm.Recompute(s)
		return nil
	})
}

// modelFlags declares the flags that set how a model generates.
func modelFlags(f *flag.FlagSet) *vlm.Options {
	o := &vlm.Options{}
	f.StringVar(&o.Backend, "backend", "auto", "auto, xla, cuda or go")
	f.IntVar(&o.Devices, "devices", 1, "devices that work together: 1, 2, 4 or 8, or -1 for all GPUs")
	f.BoolVar(&o.SameBytes, "same-bytes", false,
		"divide work on one device as on several, for the same bytes on any number of them")
	f.BoolVar(&o.PartPerDevice, "part-per-device", false,
		"divide the work of several devices into one part for each: faster, but bytes depend on the number of devices")
	f.StringVar(&o.Autotune, "autotune", "",
		"`file` with the kernels of matrix products on a GPU; if it does not exist, they are measured and it is written")
	f.BoolVar(&o.ShardWeights, "shard-weights", false, "keep each weight on one of several devices instead of on all")
	f.BoolVar(&o.BFloat16, "bf16", false, "compute in bfloat16")
	f.Func("rollout-dtype", "weights that decoding reads: float32, bfloat16 or int8", func(s string) error {
		o.RolloutDType = vlm.RolloutDType(s)
		return nil
	})
	f.IntVar(&o.TokensPerCall, "tokens-per-call", 0,
		"tokens that one program generates of each conversation: 1, 2, 4 or 8; 0 is 8 on GPUs and 1 on CPUs")
	f.IntVar(&o.CacheTokens, "cache-tokens", 0, "minimum length of a conversation's KV cache in tokens")
	f.BoolVar(&o.SharePrefix, "share-prefix", false, "read the tokens with which all conversations begin once")
	f.IntVar(&o.DraftTokens, "draft-tokens", 0, "tokens that are guessed after the next one on a CPU: 0 to 3")
	return o
}

// modelFolder returns the folder name, or if it does not exist and name is an id on the
// hub, the folder of the downloaded model.
func modelFolder(ctx context.Context, c *cli.Call, name string) (string, error) {
	if _, err := os.Stat(name); err == nil || !hub.IsID(name) {
		return name, nil
	}
	return hub.Fetch(ctx, name, hub.Options{Log: c.Log})
}

// openModel opens a model in a folder or on the hub. Invalid options are usage errors.
func openModel(ctx context.Context, c *cli.Call, dir string, o *vlm.Options) (*vlm.Model, error) {
	o.Log = c.Log
	dir, err := modelFolder(ctx, c, dir)
	if err != nil {
		return nil, err
	}
	m, err := vlm.Open(ctx, dir, *o)
	if err != nil {
		return nil, asUsage(err, badInput...)
	}
	return m, nil
}
