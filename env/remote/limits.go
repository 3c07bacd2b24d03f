package remote

import "fmt"

// Limits bound what is taken from the other side, before memory is spent on it.
type Limits struct {
	Body   int64 // bytes of a request's or a response's body
	Parts  int   // parts of a multipart body, images and data
	Pixels int   // of all images of a message together
}

// DefaultLimits allow 64 MiB, 64 images and 32 megapixels. Servers are given
// responses of a model, for which DefaultServerOptions allow 16 MiB.
func DefaultLimits() Limits { return Limits{Body: 64 << 20, Parts: 65, Pixels: 32 << 20} }

func (l Limits) validate(bad func(name, format string, args ...any)) {
	for _, f := range []struct {
		name  string
		value int64
	}{{"Limits.Body", l.Body}, {"Limits.Parts", int64(l.Parts)}, {"Limits.Pixels", int64(l.Pixels)}} {
		if f.value < 1 {
			bad(f.name, "%d is below 1", f.value)
		}
	}
}

// faults collects what is wrong with options.
type faults []error

func (f *faults) bad(name, format string, args ...any) {
	*f = append(*f, fmt.Errorf("remote: %s: %s", name, fmt.Sprintf(format, args...)))
}
