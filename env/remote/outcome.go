package remote

import (
	"fmt"
	"image"
	"strings"

	"vagen/env"
	"vagen/env/remote/internal/wire"
	"vagen/internal/floats"
	"vagen/reward"
)

// Names of the reward parts of remote environments, which send only the sum of a turn.
const (
	partReward = "reward"
	partFinal  = "final" // a legacy environment's reward for the whole episode
)

// newObservation returns an observation, or an error if the numbers of image marks and
// images differ.
func newObservation(text any, images []image.Image) (env.Observation, error) {
	s, ok := text.(string)
	if !ok && text != nil {
		return env.Observation{}, fmt.Errorf("%w: the observation must be text, found %T", ErrProtocol, text)
	}
	if marks := strings.Count(s, env.ImageMark); marks != len(images) {
		return env.Observation{}, fmt.Errorf("%w: the observation has %d image marks and %d images", ErrProtocol, marks,
			len(images))
	}
	return env.Observation{Text: s, Images: images}, nil
}

// decodeImages decodes images that have at most the given number of pixels in total.
func decodeImages[V any](list []V, pixels int, decode func(V, *int) (image.Image, error)) ([]image.Image, error) {
	var images []image.Image
	for i, v := range list {
		img, err := decode(v, &pixels)
		if err != nil {
			return nil, fmt.Errorf("%w: image %d: %w", ErrProtocol, i, err)
		}
		images = append(images, img)
	}
	return images, nil
}

// outcomeOf returns the outcome of a turn. Metrics that are not finite numbers are left
// out; a reward that is not a finite number is an error.
func outcomeOf(o env.Observation, pay, done, info any) (env.Outcome, error) {
	out := env.Outcome{Observation: o}
	switch v := pay.(type) {
	case nil:
	case int64, float64, bool:
		f, _ := wire.Float(v)
		if !floats.Finite(f) {
			return out, fmt.Errorf("%w: the reward is %v", ErrProtocol, f)
		}
		if f != 0 {
			out.Reward = reward.Parts{{Name: partReward, Value: f}}
		}
	default:
		return out, fmt.Errorf("%w: the reward must be a number, found %T", ErrProtocol, pay)
	}
	out.Done = !falsy(done)
	fields, _ := info.(map[string]any)
	out.Response = responseOf(fields)
	if m, ok := fields["metrics"].(map[string]any); ok {
		out.Turn, out.Trajectory = wire.Metrics(m["turn_metrics"]), wire.Metrics(m["traj_metrics"])
	}
	out.Success = out.Trajectory["success"] == 1 || fields["success"] == true
	return out, nil
}

// responseOf reads the parsed response from an info dictionary. It leaves out empty
// sections, which the dictionary does not distinguish from missing ones.
func responseOf(info map[string]any) reward.Response {
	r := reward.Response{Sections: map[string]string{}}
	r.Raw, _ = info["llm_raw_response"].(string)
	r.FormatCorrect, _ = info["format_correct"].(bool)
	for _, name := range []string{reward.SectionThink, reward.SectionObservation, reward.SectionReasoning,
		reward.SectionPrediction, reward.SectionAnswer} {
		field := name
		if name == reward.SectionAnswer {
			field = "action"
		}
		text, ok := info[field+"_content"].(string)
		if !ok { // Navigation and PrimitiveSkill have shorter names
			text, _ = info[field].(string)
		}
		if text != "" {
			r.Sections[name] = text
		}
	}
	list, _ := info["actions"].([]any)
	for _, a := range list {
		if word, ok := a.(string); ok {
			r.Actions = append(r.Actions, word)
		}
	}
	return r
}
