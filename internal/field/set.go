package field

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"vagen/internal/clock"
)

// Rules say what Set converts beyond values of the field's own kind.
type Rules struct {
	NumberText bool // a text may stand for a number, as 1e-6 and 1_000 in YAML
	Single     bool // one value may stand for a list of it
	KeepNull   bool // null leaves booleans, texts and numbers as they are instead of being an error
}

// Mismatch is the error about a value that a field cannot hold.
type Mismatch struct {
	At    string // the entry of a list, such as "[2]"; "" for the field itself
	Found any
	Want  string // what the field holds
}

// Error returns what was found and what is allowed.
func (m *Mismatch) Error() string {
	if m.Found == nil {
		return "null, must be " + m.Want
	}
	return fmt.Sprintf("%v (%T), must be %s", m.Found, m.Found, m.Want)
}

// Set converts a value, as YAML or JSON decode it or as a program gives it, to a field.
// Whole floats stand for integers and integers for floats. null clears pointers, lists
// and maps. Arrays hold lists of their length, and durations numbers of seconds. After an error, dst may be partly set.
func (r Rules) Set(dst reflect.Value, value any) *Mismatch {
	k := dst.Kind()
	if value == nil {
		if k == reflect.Pointer || k == reflect.Slice || k == reflect.Map {
			dst.SetZero()
			return nil
		} else if r.KeepNull {
			return nil
		}
	}
	src := reflect.ValueOf(value)
	want := ""
	switch {
	case k == reflect.Pointer:
		p := reflect.New(dst.Type().Elem())
		if err := r.Set(p.Elem(), value); err != nil {
			return err
		}
		dst.Set(p)
	case k == reflect.Slice || k == reflect.Array:
		return r.setList(dst, src, value)
	case k == reflect.Bool:
		if src.Kind() != reflect.Bool {
			want = "true or false"
			break
		}
		dst.SetBool(src.Bool())
	case k == reflect.String:
		_, isNumber := value.(json.Number)
		if src.Kind() != reflect.String || isNumber {
			want = "a text"
			break
		}
		dst.SetString(src.String())
	case dst.Type() == reflect.TypeFor[time.Duration](): // in seconds
		x, ok := r.Number(value)
		if !ok {
			want = "a finite number"
			break
		}
		dst.SetInt(int64(clock.Seconds(x)))
	case dst.CanInt():
		n, ok := r.Whole(value)
		if !ok || dst.OverflowInt(n) {
			want = bounded(dst.Type(), "a whole number")
			break
		}
		dst.SetInt(n)
	case dst.CanUint():
		n, ok := value.(uint64) // may be beyond int64
		if !ok {
			var signed int64
			signed, ok = r.Whole(value)
			n, ok = uint64(signed), ok && signed >= 0
		}
		if !ok || dst.OverflowUint(n) {
			want = bounded(dst.Type(), "a whole number, not negative")
			break
		}
		dst.SetUint(n)
	case dst.CanFloat():
		x, ok := r.Number(value)
		if !ok {
			want = "a finite number"
			break
		}
		dst.SetFloat(x)
	case value != nil && src.Type().AssignableTo(dst.Type()):
		dst.Set(src)
	case k == reflect.Map:
		want = "a mapping"
	default:
		want = dst.Type().String()
	}
	if want != "" {
		return &Mismatch{Found: value, Want: want}
	}
	return nil
}

// bounded adds the size of the smaller types of integers.
func bounded(t reflect.Type, what string) string {
	if t.Bits() < 64 {
		return fmt.Sprintf("%s of %d bits", what, t.Bits())
	}
	return what
}

func (r Rules) setList(dst, src reflect.Value, value any) *Mismatch {
	if k := src.Kind(); k != reflect.Slice && k != reflect.Array {
		if !r.Single || dst.Kind() == reflect.Array {
			return &Mismatch{Found: value, Want: "a list"}
		}
		src = reflect.ValueOf([]any{value})
	}
	list := dst
	if dst.Kind() == reflect.Slice {
		list = reflect.MakeSlice(dst.Type(), src.Len(), src.Len())
	} else if src.Len() != dst.Len() {
		return &Mismatch{Found: value, Want: fmt.Sprintf("a list of %d", dst.Len())}
	}
	for i := range src.Len() {
		if err := r.Set(list.Index(i), src.Index(i).Interface()); err != nil {
			err.At = fmt.Sprintf("[%d]%s", i, err.At)
			return err
		}
	}
	if dst.Kind() == reflect.Slice {
		dst.Set(list)
	}
	return nil
}

// Whole returns a value as an integer. Of floats it takes those without fraction up to
// 2⁵³; beyond, a float does not say which integer was meant.
func (r Rules) Whole(value any) (int64, bool) {
	switch x := value.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n, true
		}
		f, err := x.Float64()
		if err != nil {
			return 0, false
		}
		return r.Whole(f)
	case string:
		digits := strings.ReplaceAll(x, "_", "")
		if !r.NumberText || digits == x { // YAML itself reads other integers
			return 0, false
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		return n, err == nil
	}
	switch src := reflect.ValueOf(value); {
	case value == nil:
	case src.CanInt():
		return src.Int(), true
	case src.CanUint():
		return int64(src.Uint()), src.Uint() <= math.MaxInt64
	case src.CanFloat():
		f := src.Float()
		return int64(f), f == math.Trunc(f) && math.Abs(f) <= 1<<53
	}
	return 0, false
}

// Number returns a value as a finite float.
func (r Rules) Number(value any) (float64, bool) {
	f := math.NaN()
	switch src := reflect.ValueOf(value); {
	case value == nil:
	case src.CanFloat():
		f = src.Float()
	case src.CanInt():
		f = float64(src.Int())
	case src.CanUint():
		f = float64(src.Uint())
	case src.Kind() == reflect.String:
		if _, isNumber := value.(json.Number); !isNumber && !r.NumberText {
			break
		}
		if x, err := strconv.ParseFloat(strings.ReplaceAll(src.String(), "_", ""), 64); err == nil {
			f = x
		}
	}
	return f, f-f == 0
}
