package engine

import (
	"fmt"
	"math"
)

// Sample is a response with the log-probs of its tokens from two sources.
type Sample struct {
	Sampled []float32 // that the server reported
	Learner []float32 // of the learner, at the temperature of sampling
	Plain   []float32 // of the learner at temperature 1; nil where that is the same
	Images  bool      // the context has images
}

// Agreement summarises differences between log-probs, Sampled minus Learner.
type Agreement struct {
	Responses, Tokens int
	Mean              float64 // of the absolute differences
	Largest           float64 // absolute difference
	Bias              float64 // mean difference
}

// Compare summarises the differences of all samples. Of lists of different lengths it reads as many log-probs as
// the shorter one has.
func Compare(samples []Sample) Agreement {
	a := Agreement{Responses: len(samples)}
	for _, s := range samples {
		a.add(s.Sampled, s.Learner)
	}
	a.finish()
	return a
}

func (a *Agreement) add(sampled, learner []float32) {
	for i, x := range sampled[:min(len(sampled), len(learner))] {
		d := float64(x) - float64(learner[i])
		a.Tokens++
		a.Mean += math.Abs(d)
		a.Bias += d
		if math.Abs(d) > a.Largest || math.IsNaN(d) {
			a.Largest = math.Abs(d)
		}
	}
}

func (a *Agreement) finish() {
	if a.Tokens > 0 {
		a.Mean /= float64(a.Tokens)
		a.Bias /= float64(a.Tokens)
	}
}

// Diagnose returns an error if the mean absolute difference of log-probs exceeds limit, with
// the likely cause. It wraps ErrMismatch. The lists of a sample must have the same length.
// Causes are looked for in this order:
//
//   - at another temperature than 1, the log-probs are those of temperature 1: raw log-probs;
//   - only responses with images in their context differ: another image preprocessing;
//   - the sampled log-probs are larger at nearly every token: the server samples from a
//     limited distribution, as generation_config.json of its folder says;
//   - otherwise the server has other weights.
func Diagnose(samples []Sample, limit float64) error {
	for i, s := range samples {
		if n := len(s.Sampled); len(s.Learner) != n || s.Plain != nil && len(s.Plain) != n {
			return fmt.Errorf("engine: sample %d: Sampled has %d log-probs, Learner %d and Plain %d, must be equally many", i, n,
				len(s.Learner), len(s.Plain))
		}
	}
	all := Compare(samples)
	if all.Mean <= limit {
		return nil
	}
	return fmt.Errorf("engine: %w: by %.3g on average and %.3g at most over %d tokens of %d responses, allowed are %.3g on average; the likely cause is %s",
		ErrMismatch, all.Mean, all.Largest, all.Tokens, all.Responses, limit, cause(samples, all, limit))
}

func cause(samples []Sample, all Agreement, limit float64) string {
	var raw, text, images Agreement
	tempered, above := 0, 0
	for _, s := range samples {
		plain := s.Learner
		if s.Plain != nil {
			plain = s.Plain
			tempered++
		}
		raw.add(s.Sampled, plain)
		if s.Images {
			images.add(s.Sampled, s.Learner)
		} else {
			text.add(s.Sampled, s.Learner)
		}
		for i, x := range s.Sampled {
			if x > s.Learner[i] {
				above++
			}
		}
	}
	raw.finish()
	text.finish()
	images.finish()
	switch {
	case tempered > 0 && raw.Mean < all.Mean/2:
		return "raw log-probs, from before the temperature: start vLLM with --logprobs-mode processed_logprobs, or SGLang without SGLANG_RETURN_ORIGINAL_LOGPROB"
	case text.Tokens > 0 && images.Tokens > 0 && text.Mean <= limit:
		return fmt.Sprintf("image preprocessing: responses without images differ by %.3g only; compare preprocessor_config.json of the server's folder and --mm-processor-kwargs with the learner's model", text.Mean)
	case float64(above) >= 0.9*float64(all.Tokens):
		return "sampling defaults of the model's folder: start vLLM with --generation-config vllm, or remove top_k, top_p and repetition_penalty from generation_config.json"
	}
	return "other weights: the server loads another model, does not apply the adapter, or reads an old folder through the path given by server_sync_dir; sampling defaults with a repetition penalty look the same"
}
