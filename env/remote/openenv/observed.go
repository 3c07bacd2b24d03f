package openenv

import (
	"encoding/base64"
	"slices"
	"strconv"

	"vagen/env"
	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
	"vagen/internal/floats"
)

// observed is the answer to a reset or a step.
type observed struct {
	env.Outcome
	images [][]byte // files
	played bool     // it is the answer to a step
}

// observe encodes the images of what an environment shows.
func (s *Server) observe(o env.Outcome, played bool) (*observed, error) {
	images, err := wire.EncodeImages(o.Observation.Images, s.o.Images)
	return &observed{o, images, played}, err
}

// MarshalJSON implements json.Marshaler.
func (a *observed) MarshalJSON() ([]byte, error) { return a.append(nil), nil }

// append writes the answer as JSON, which by reflection would take half of a request's time. Like
// 0.10.0 it sends metadata twice, but once and empty after a reset.
func (a *observed) append(dst []byte) []byte {
	dst = append(dst, `{"observation":{"metadata":`...)
	start := len(dst)
	dst = a.appendMetadata(dst)
	metadata := dst[start:]
	dst = appendText(append(dst, `,"text":`...), a.Observation.Text)
	dst = append(dst, `,"images":[`...)
	for i, b := range a.images {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
	}
	dst = append(dst, `]},"reward":`...)
	if pay := a.Reward.Sum(); a.played && floats.Finite(pay) {
		dst = pyjson.AppendFloat(dst, pay)
	} else {
		dst = append(dst, "null"...)
	}
	dst = strconv.AppendBool(append(dst, `,"done":`...), a.Done)
	if a.played {
		dst = append(append(dst, `,"metadata":`...), metadata...)
	}
	return append(dst, '}')
}

func (a *observed) appendMetadata(dst []byte) []byte {
	if !a.played {
		return append(dst, "{}"...)
	}
	dst = strconv.AppendBool(append(dst, `{"success":`...), a.Success)
	dst = appendMetrics(append(dst, `,"turn_metrics":`...), a.Turn)
	dst = appendMetrics(append(dst, `,"traj_metrics":`...), a.Trajectory)
	return append(dst, '}')
}

// appendMetrics writes the metrics that JSON can express.
func appendMetrics(dst []byte, m env.Metrics) []byte {
	dst = append(dst, '{')
	names := make([]string, 0, 8) // most often enough, and not on the heap
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if v := m[name]; floats.Finite(v) {
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = pyjson.AppendFloat(append(appendText(dst, name), ':'), v)
		}
	}
	return append(dst, '}')
}

func appendText(dst []byte, s string) []byte {
	dst, _ = pyjson.Append(dst, s, pyjson.Plain) // a text can always be written
	return dst
}
