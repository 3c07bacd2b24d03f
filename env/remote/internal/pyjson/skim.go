package pyjson

// Member returns the text that an object has under a name, the last one if there
// are several. It builds no other value. ok is false for what is no object, no text
// or no JSON up to there; Parse says what is wrong with it.
func Member(data []byte, name string) (text string, ok bool) {
	r := reader{data: data}
	if r.space(); !r.take("{") {
		return "", false
	}
	for {
		r.space()
		if r.peek() != '"' {
			return r.closed(text, ok)
		}
		key, err := r.text()
		if err != nil {
			return "", false
		}
		if r.space(); !r.take(":") {
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
		if r.space(); !r.take(",") {
			return r.closed(text, ok)
		}
	}
}

// closed drops what was found in an object that does not end here.
func (r *reader) closed(text string, ok bool) (string, bool) {
	if r.peek() != '}' {
		return "", false
	}
	return text, ok
}

// skip goes to the comma or bracket that ends a value.
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
