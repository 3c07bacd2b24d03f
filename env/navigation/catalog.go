package navigation

import (
	_ "embed" // the catalog
	"encoding/json"
	"fmt"
	"hash/fnv"
	"image/color"
	"maps"
	"slices"
	"strings"
	"unicode"

	"vagen/env/internal/rays"
	"vagen/env/internal/words"
)

// Short names for the forms of parts.
const (
	box   = rays.Box
	tube  = rays.Tube
	globe = rays.Globe
)

// part is a piece of an object: a form in a box, given in fractions of the
// object's width, height and depth, with an ink.
type part struct {
	form       rays.Form
	x0, y0, z0 float64
	x1, y1, z1 float64
	ink        ink
}

// ink is a colour: the object's own, or one of the palette.
type ink string

const (
	own     ink = "own"
	ownDark ink = "ownDark"
)

var palette = map[ink]color.RGBA{
	"white": {245, 245, 242, 255}, "cream": {236, 220, 190, 255}, "silver": {196, 202, 208, 255},
	"gray": {128, 132, 138, 255},
	"dark": {62, 66, 74, 255}, "black": {24, 25, 29, 255}, "wood": {126, 84, 48, 255}, "oak": {186, 142, 92, 255},
	"glass": {150, 196, 220, 255},
	"leaf":  {62, 142, 62, 255}, "soil": {92, 64, 44, 255}, "red": {206, 44, 40, 255}, "yellow": {246, 206, 70, 255},
	"blue": {44, 96, 190, 255},
}

// tints are the colours of objects.
var tints = map[string]color.RGBA{
	"red": {204, 42, 40, 255}, "green": {46, 150, 70, 255}, "blue": {44, 98, 200, 255}, "yellow": {244, 204, 60, 255},
	"orange": {240, 134, 36, 255}, "purple": {134, 66, 178, 255}, "pink": {236, 122, 166, 255},
	"white": {244, 244, 240, 255},
	"black": {34, 34, 40, 255}, "brown": {130, 82, 46, 255}, "gray": {140, 144, 150, 255}, "beige": {226, 206, 170, 255},
}

// room is a set of kinds of rooms.
type room uint8

const (
	kitchen room = 1 << iota
	living
	bedroom
	bathroom
	anywhere = kitchen | living | bedroom | bathroom
)

var roomNames = map[room]string{kitchen: "kitchen", living: "living room", bedroom: "bedroom", bathroom: "bathroom"}

// place is where an object can be placed.
type place uint8

const (
	onTop  place = iota // of furniture
	onWall              // on the floor with its back to a wall
	onFloor
)

// kind describes a type of objects as AI2-THOR names them.
type kind struct {
	name    string
	w, h, d float64 // metres
	place   place
	rooms   room
	top     float64 // height of a surface for other objects, 0 without one
	tints   string  // possible colours
	purpose string  // completes "something …"
	look    string  // completes "the <colour> …"
	parts   []part
}

//go:embed catalog.json
var catalogJSON []byte

// catalog has the objects of generated rooms in the order in which furnishing draws them.
var catalog = words.Must(readCatalog(catalogJSON))

// readCatalog reads kinds of objects: size is width, height and depth, and a part's box x0, y0, z0, x1, y1, z1.
func readCatalog(data []byte) ([]kind, error) {
	var list []struct {
		Name, Place, Tints, Purpose, Look string
		Size                              [3]float64
		Top                               float64
		Rooms                             []string
		Parts                             []struct {
			Form string
			Box  [6]float64
			Ink  ink
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	forms := map[string]rays.Form{"box": box, "tube": tube, "globe": globe}
	places := map[string]place{"top": onTop, "wall": onWall, "floor": onFloor}
	rooms := map[string]room{
		"kitchen": kitchen, "living": living, "bedroom": bedroom, "bathroom": bathroom, "anywhere": anywhere,
	}
	var bad error
	out := make([]kind, len(list))
	for i, o := range list {
		k := kind{name: o.Name, w: o.Size[0], h: o.Size[1], d: o.Size[2], place: named(&bad, places, o.Place), top: o.Top,
			tints: o.Tints, purpose: o.Purpose, look: o.Look}
		for _, r := range o.Rooms {
			k.rooms |= named(&bad, rooms, r)
		}
		for _, p := range o.Parts {
			b := p.Box
			k.parts = append(k.parts, part{named(&bad, forms, p.Form), b[0], b[1], b[2], b[3], b[4], b[5], p.Ink})
		}
		out[i] = k
	}
	return out, bad
}

// named returns the value of a name, and sets bad if there is none.
func named[T any](bad *error, all map[string]T, name string) T {
	v, ok := all[name]
	if !ok {
		*bad = fmt.Errorf("navigation: catalog: %q, must be one of %v", name, slices.Sorted(maps.Keys(all)))
	}
	return v
}

// kinds maps names to kinds.
var kinds = func() map[string]*kind {
	m := make(map[string]*kind, len(catalog))
	for i := range catalog {
		m[catalog[i].name] = &catalog[i]
	}
	return m
}()

// targetTypes returns the types of the objects that may be targets in generated rooms, as options name
// them: there must be exactly one of them in the room.
func targetTypes() []string {
	var names []string
	for i := range catalog {
		if name := catalog[i].name; len(roomsWith([]string{name})) > 0 {
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
	k := &kind{name: name, w: 0.2, h: 0.2, d: 0.2, rooms: anywhere, tints: colors[n%uint32(len(colors))]}
	k.parts = []part{{rays.Form(n >> 8 % 3), 0, 0, 0, 1, 1, 1, own}, {box, 0.2, 0.4, -0.02, 0.8, 0.6, 1.02, ownDark}}
	return k
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
