package openenv

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"vagen/env"
	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
	"vagen/internal/floats"
)

// observed is the answer to a reset or a step.
type observed struct {
	text    string
	images  [][]byte // files
	reward  *float64
	done    bool
	outcome *env.Outcome // has the metadata; nil after a reset
}

// observe encodes the images of what an environment shows.
func (s *Server) observe(o env.Observation) (*observed, error) {
	a := &observed{text: o.Text, images: make([][]byte, len(o.Images))}
	for i, img := range o.Images {
		b, err := wire.EncodeImage(img, wire.Format(s.o.Images))
		if err != nil {
			return nil, fmt.Errorf("image %d of the observation: %w", i, err)
		}
		a.images[i] = b
	}
	return a, nil
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
	dst = appendText(append(dst, `,"text":`...), a.text)
	dst = append(dst, `,"images":[`...)
	for i, b := range a.images {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
	}
	dst = append(dst, `]},"reward":`...)
	if a.reward == nil {
		dst = append(dst, "null"...)
	} else {
		dst = pyjson.AppendFloat(dst, *a.reward)
	}
	dst = strconv.AppendBool(append(dst, `,"done":`...), a.done)
	if a.outcome != nil {
		dst = append(append(dst, `,"metadata":`...), metadata...)
	}
	return append(dst, '}')
}

func (a *observed) appendMetadata(dst []byte) []byte {
	if a.outcome == nil {
		return append(dst, "{}"...)
	}
	dst = strconv.AppendBool(append(dst, `{"success":`...), a.outcome.Success)
	dst = appendMetrics(append(dst, `,"turn_metrics":`...), a.outcome.Turn)
	dst = appendMetrics(append(dst, `,"traj_metrics":`...), a.outcome.Trajectory)
	return append(dst, '}')
}

// appendMetrics writes the metrics that JSON can express.
func appendMetrics(dst []byte, m env.Metrics) []byte {
	dst = append(dst, '{')
	for _, name := range slices.Sorted(maps.Keys(m)) {
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
