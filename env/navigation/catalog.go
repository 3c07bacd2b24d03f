package navigation

import (
	_ "embed" // the catalog
	"encoding/json"
	"fmt"
	"hash/fnv"
	"image/color"
	"strings"
	"unicode"

	"vagen/env/internal/rays"
	"vagen/env/internal/words"
)

// part is a piece of an object: a form with an ink in a box x0, y0, z0, x1, y1, z1, which is given in fractions of the
// object's width, height and depth.
type part struct {
	Form rays.Form
	Box  [6]float64
	Ink  ink
}

// ink is a colour: the object's own, or one of the palette.
type ink string

const (
	own     ink = "own"
	ownDark ink = "ownDark"
)

// rgb is a colour, which is read as six hexadecimal digits.
type rgb struct{ color.RGBA }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *rgb) UnmarshalText(text []byte) error {
	c.A = 255
	_, err := fmt.Sscanf(string(text), "%2x%2x%2x", &c.R, &c.G, &c.B)
	return err
}

// room is a kind of rooms.
type room string

// anywhere are all kinds, in the order of AI2-THOR's numbers.
var anywhere = []room{"kitchen", "living room", "bedroom", "bathroom"}

// interior describes a kind of rooms.
type interior struct {
	Floor [2]rgb
	Side  [2]float64 // shortest and longest wall in metres
	// Furniture in the order of placement. A piece of Often is used with probability one half.
	Always, Often []string
}

// place is where an object can be placed.
type place string

const (
	onTop  place = "top"  // of furniture
	onWall place = "wall" // on the floor with its back to a wall
)

// kind describes a type of objects as AI2-THOR names them.
type kind struct {
	Name    string
	W, H, D float64 // metres
	Place   place
	Rooms   []room
	Top     float64 // height of a surface for other objects, 0 without one
	Tints   string  // possible colours
	Purpose string  // completes "something …"
	Look    string  // completes "the <colour> …"
	Parts   []part
}

// footprint returns the width and depth of an object after quarter turns.
func (k *kind) footprint(turns int) (w, d float64) {
	if turns%2 != 0 {
		return k.D, k.W
	}
	return k.W, k.D
}

//go:embed catalog.json
var catalogJSON []byte

// catalog is what generated rooms are made of.
var catalog = func() (c struct {
	Rooms   map[room]interior
	Palette map[ink]rgb
	Tints   map[string]rgb // the colours of objects
	Objects []kind         // in the order in which furnishing draws them
}) {
	err := json.Unmarshal(catalogJSON, &c)
	return words.Must(c, err)
}()

// kinds maps names to kinds.
var kinds = func() map[string]*kind {
	m := make(map[string]*kind, len(catalog.Objects))
	for i := range catalog.Objects {
		m[catalog.Objects[i].Name] = &catalog.Objects[i]
	}
	return m
}()

// targetTypes returns the types of the objects that may be targets in generated rooms, as options name
// them: there must be exactly one of them in the room.
func targetTypes() []string {
	var names []string
	for i := range catalog.Objects {
		if name := catalog.Objects[i].Name; len(roomsWith([]string{name})) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// kindOf returns the kind of a type. A type that is not in the catalogue, which task
// files may name, is a small object whose form and colour are derived from its name.
func kindOf(name string) *kind {
	if k := kinds[name]; k != nil {
		return k
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	n := h.Sum32()
	colors := []string{"red", "green", "blue", "yellow", "orange", "purple", "pink", "white"}
	return &kind{Name: name, W: 0.2, H: 0.2, D: 0.2, Place: onTop, Rooms: anywhere, Tints: colors[n%uint32(len(colors))],
		Parts: []part{{rays.Form(n >> 8 % 3), [6]float64{0, 0, 0, 1, 1, 1}, own},
			{rays.Box, [6]float64{0.2, 0.4, -0.02, 0.8, 0.6, 1.02}, ownDark}}}
}

// Spoken returns a type as prompts write it, in words: GarbageCan becomes "garbage can".
func Spoken(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
