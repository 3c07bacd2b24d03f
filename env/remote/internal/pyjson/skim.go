package pyjson

// Member returns the string member of an object with the given name, the last one if
// there are several, without building other values. ok is false if data is not an
// object, the member is missing or not a string, or the JSON is malformed, for which
// Parse returns the error.
func Member(data []byte, name string) (text string, ok bool) {
	r := reader{data: data}
	if r.space(); !r.skipIf("{") {
		return "", false
	}
	for {
		r.space()
		if r.peek() != '"' {
			return r.atObjectEnd(text, ok)
		}
		key, err := r.text()
		if err != nil {
			return "", false
		}
		if r.space(); !r.skipIf(":") {
			return "", false
		}
		switch r.space(); {
		case key == name && r.peek() == '"':
			if text, err = r.text(); err != nil {
				return "", false
			}
			ok = true
		case key == name:
			text, ok = "", false
			fallthrough
		default:
			r.skip()
		}
		if r.space(); !r.skipIf(",") {
			return r.atObjectEnd(text, ok)
		}
	}
}

// atObjectEnd returns its arguments if the object ends here, and not ok otherwise.
func (r *reader) atObjectEnd(text string, ok bool) (string, bool) {
	if r.peek() != '}' {
		return "", false
	}
	return text, ok
}

// skip moves to the comma or bracket after a value.
func (r *reader) skip() {
	for open := 0; r.at < len(r.data); r.at++ {
		switch r.data[r.at] {
		case '"':
			for r.at++; r.at < len(r.data) && r.data[r.at] != '"'; r.at++ {
				if r.data[r.at] == '\\' {
					r.at++
				}
			}
		case '[', '{':
			open++
		case ']', '}':
			if open == 0 {
				return
			}
			open--
		case ',':
			if open == 0 {
				return
			}
		}
	}
}
