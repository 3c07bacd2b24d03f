// Package termimage shows pictures in terminals that support it: with the graphics
// protocol of kitty or the inline images of iTerm2.
package termimage

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"strings"
)

// Protocol is a terminal's graphics protocol.
type Protocol string

// The protocols.
const (
	None  Protocol = "none"
	Kitty Protocol = "kitty"
	ITerm Protocol = "iterm2"
)

// Protocols returns all of them.
func Protocols() []Protocol { return []Protocol{None, Kitty, ITerm} }

// Detect returns a terminal's protocol, based on its environment variables. For
// unidentified terminals it returns None: a terminal that does not understand a protocol
// prints it as text.
func Detect() Protocol {
	get := func(name string) string { return strings.ToLower(os.Getenv(name)) }
	term, program := get("TERM"), get("TERM_PROGRAM")
	switch {
	case get("TMUX") != "" || strings.HasPrefix(term, "screen"):
		return None // multiplexers do not pass them on
	case get("KITTY_WINDOW_ID") != "" || strings.Contains(term, "kitty") || strings.Contains(term, "ghostty") ||
		program == "ghostty":
		return Kitty
	case program == "iterm.app" || program == "wezterm" || program == "vscode" || get("LC_TERMINAL") == "iterm2":
		return ITerm
	}
	return None
}

// Write shows a picture, and moves to the next line.
func Write(w io.Writer, p Protocol, m image.Image) error {
	var out bytes.Buffer
	switch p {
	case Kitty:
		if err := kitty(&out, m); err != nil {
			return err
		}
	case ITerm:
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			return fmt.Errorf("termimage: %w", err)
		}
		fmt.Fprintf(&out, "\x1b]1337;File=inline=1;size=%d:%s\a\n", b.Len(), base64.StdEncoding.EncodeToString(b.Bytes()))
	default:
		return fmt.Errorf("termimage: protocol %q cannot show pictures", p)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// kitty writes a PNG in parts of at most 4096 characters, as the protocol requires.
func kitty(out *bytes.Buffer, m image.Image) error {
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		return fmt.Errorf("termimage: %w", err)
	}
	data := base64.StdEncoding.EncodeToString(b.Bytes())
	const part = 4096
	for first := true; len(data) > 0; first = false {
		n := min(part, len(data))
		more := 0
		if n < len(data) {
			more = 1
		}
		control := fmt.Sprintf("m=%d", more)
		if first {
			control = "f=100,a=T," + control
		}
		fmt.Fprintf(out, "\x1b_G%s;%s\x1b\\", control, data[:n])
		data = data[n:]
	}
	out.WriteByte('\n')
	return nil
}
