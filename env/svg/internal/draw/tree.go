package draw

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrSyntax is wrapped by errors about text that is not a well-formed document.
var ErrSyntax = errors.New("malformed document")

// node is an element.
type node struct {
	name     string // without prefix
	prefixed bool
	attrs    []attribute
	text     []byte // of character data, which are children named textNode
	parent   *node
	children []*node
	classes  []string
}

// textNode names the nodes of character data, as no element is named.
const textNode = "#text"

type attribute = declaration // the name without prefix, except for xmlns ones

// attr returns the value of an attribute, "" without it.
func (n *node) attr(name string) string {
	value, _ := n.lookup(name)
	return value
}

func (n *node) lookup(name string) (string, bool) {
	for i := range n.attrs {
		if n.attrs[i].name == name {
			return n.attrs[i].value, true
		}
	}
	return "", false
}

// reader builds the tree of a document.
type reader struct {
	strict   bool
	limits   Limits
	root, at *node
	elements int
	depth    int
	spaces   []map[string]bool // namespace prefixes bound by the open elements
}

// read parses a document. Strictly, it must be well-formed with bound namespace
// prefixes. Otherwise elements that are not closed end with their parents or the
// text, and what can't be read at all ends the document.
func read(text string, strict bool, limits Limits) (*node, error) {
	if len(text) > limits.Bytes {
		return nil, fmt.Errorf("%d bytes, allowed are %d: %w", len(text), limits.Bytes, ErrLimit)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict = strict
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	r := reader{strict: strict, limits: limits}
	for {
		token, err := d.RawToken()
		if err == nil {
			err = r.handle(token)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrLimit):
			return nil, err
		case errors.Is(err, io.EOF) && (r.at == nil || !strict), !strict:
			if r.root == nil {
				return nil, fmt.Errorf("%w: no element", ErrSyntax)
			}
			return r.root, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: <%s> is not closed", ErrSyntax, r.at.name)
		case errors.Is(err, ErrSyntax):
			return nil, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
		return nil, fmt.Errorf("%w: byte %d: %w", ErrSyntax, d.InputOffset(), err)
	}
}

func (r *reader) handle(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return r.open(t)
	case xml.EndElement:
		return r.close(t)
	case xml.CharData:
		if r.at != nil {
			r.addText(t)
		} else if r.strict && strings.Trim(string(t), " \t\r\n") != "" {
			return fmt.Errorf("%w: text outside of the root element", ErrSyntax)
		}
	}
	return nil
}

// addText appends character data to the open element.
func (r *reader) addText(text []byte) {
	last := len(r.at.children) - 1
	if last < 0 || r.at.children[last].name != textNode {
		r.at.children = append(r.at.children, &node{name: textNode, parent: r.at})
		last++
	}
	r.at.children[last].text = append(r.at.children[last].text, text...)
}

func (r *reader) open(t xml.StartElement) error {
	if r.elements++; r.elements > r.limits.Elements {
		return fmt.Errorf("more than %d elements: %w", r.limits.Elements, ErrLimit)
	}
	if r.depth++; r.depth > r.limits.Depth {
		return fmt.Errorf("elements nest deeper than %d: %w", r.limits.Depth, ErrLimit)
	}
	n := &node{name: t.Name.Local, prefixed: t.Name.Space != "", parent: r.at}
	if err := r.attributes(n, t); err != nil {
		return err
	}
	if n.classes = strings.Fields(n.attr("class")); len(n.classes) > maxClasses {
		n.classes = n.classes[:maxClasses]
	}
	switch {
	case r.at != nil:
		r.at.children = append(r.at.children, n)
	case r.root == nil:
		r.root = n
	case r.strict:
		return fmt.Errorf("%w: <%s> is a second root element", ErrSyntax, n.name)
	default:
		r.depth--
		return io.EOF // what follows the document doesn't matter
	}
	r.at = n
	return nil
}

// Bounds of one element; classes beyond theirs are forgotten.
const (
	maxAttributes = 256
	maxClasses    = 16
)

// attributes takes over the attributes of an element. Strictly, none may come
// twice, and prefixes must be bound.
func (r *reader) attributes(n *node, t xml.StartElement) error {
	if len(t.Attr) > maxAttributes {
		return fmt.Errorf("<%s> has %d attributes, allowed are %d: %w", n.name, len(t.Attr), maxAttributes, ErrLimit)
	}
	var bound map[string]bool
	for _, a := range t.Attr {
		if a.Name.Space == "xmlns" {
			if bound == nil {
				bound = make(map[string]bool)
			}
			bound[a.Name.Local] = true
		}
	}
	r.spaces = append(r.spaces, bound)
	if r.strict && !r.bound(t.Name.Space) {
		return fmt.Errorf("%w: <%s:%s>: the prefix is not bound to a namespace", ErrSyntax, t.Name.Space, t.Name.Local)
	}
	seen := make(map[xml.Name]bool, len(t.Attr))
	for _, a := range t.Attr {
		if r.strict && seen[a.Name] {
			return fmt.Errorf("%w: <%s>: attribute %q comes twice", ErrSyntax, n.name, a.Name.Local)
		}
		seen[a.Name] = true
		if a.Name.Space == "xmlns" {
			continue
		}
		if r.strict && !r.bound(a.Name.Space) {
			return fmt.Errorf("%w: <%s>: the prefix of attribute %s:%s is not bound to a namespace", ErrSyntax, n.name,
				a.Name.Space, a.Name.Local)
		}
		if _, have := n.lookup(a.Name.Local); !have || a.Name.Space == "" {
			n.attrs = append(n.attrs, attribute{a.Name.Local, a.Value})
		}
	}
	return nil
}

func (r *reader) bound(prefix string) bool {
	if prefix == "" || prefix == "xml" {
		return true
	}
	for _, s := range r.spaces {
		if s[prefix] {
			return true
		}
	}
	return false
}

// close ends an element. Leniently, the elements inside that were left open end
// with it, and an end without a beginning is passed over.
func (r *reader) close(t xml.EndElement) error {
	n := r.at
	for n != nil && n.name != t.Name.Local {
		if r.strict {
			return fmt.Errorf("%w: </%s> closes <%s>", ErrSyntax, t.Name.Local, n.name)
		}
		n = n.parent
	}
	if n == nil {
		if r.strict {
			return fmt.Errorf("%w: </%s> closes nothing", ErrSyntax, t.Name.Local)
		}
		return nil
	}
	for {
		last := r.at
		r.at = last.parent
		r.depth--
		r.spaces = r.spaces[:len(r.spaces)-1]
		if last == n {
			break
		}
	}
	if r.at == nil && !r.strict {
		return io.EOF
	}
	return nil
}

// walk visits a tree in document order until visit returns false.
func (n *node) walk(visit func(*node) bool) bool {
	if !visit(n) {
		return false
	}
	for _, c := range n.children {
		if !c.walk(visit) {
			return false
		}
	}
	return true
}
