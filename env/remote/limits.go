package remote

import "fmt"

// Limits bound the messages that are accepted from the other side. They are checked
// before memory is allocated.
type Limits struct {
	Body   int64 // bytes of a request's or a response's body
	Parts  int   // parts of a multipart body, images and data
	Pixels int   // of all images of a message together
}

// DefaultLimits allows 64 MiB, 64 images and 32 megapixels. DefaultServerOptions allows
// bodies of 16 MiB only, since requests have no images.
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

// problems collects the errors of options.
type problems []error

func (f *problems) add(name, format string, args ...any) {
	*f = append(*f, fmt.Errorf("remote: %s: %s", name, fmt.Sprintf(format, args...)))
}
