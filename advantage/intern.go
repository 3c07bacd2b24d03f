package advantage

// Interner numbers strings in order of first appearance, for identities that
// come as text. The zero value is ready to use.
type Interner struct{ ids map[string]int }

// ID returns the number of a string: 0 for the first one seen, and so on.
func (in *Interner) ID(s string) int {
	id, ok := in.ids[s]
	if !ok {
		if in.ids == nil {
			in.ids = make(map[string]int)
		}
		id = len(in.ids)
		in.ids[s] = id
	}
	return id
}

// IDs appends the numbers of the strings.
func (in *Interner) IDs(dst []int, strings ...string) []int {
	for _, s := range strings {
		dst = append(dst, in.ID(s))
	}
	return dst
}

// Len returns the number of different strings.
func (in *Interner) Len() int { return len(in.ids) }
