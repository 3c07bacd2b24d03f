package numpyrand

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// stateBytes is the length of a stored state: state, increment, kept half, and whether
// there is one.
const stateBytes = 4*8 + 4 + 1

// MarshalText implements encoding.TextMarshaler: the state in hexadecimal.
func (g *PCG64) MarshalText() ([]byte, error) {
	b := make([]byte, 0, stateBytes)
	for _, x := range []uint64{g.hi, g.lo, g.incHi, g.incLo} {
		b = binary.BigEndian.AppendUint64(b, x)
	}
	half, has := uint32(0), byte(0)
	if g.hasHalf {
		half, has = g.half, 1
	}
	b = append(binary.BigEndian.AppendUint32(b, half), has)
	return hex.AppendEncode(nil, b), nil
}

// UnmarshalText implements encoding.TextUnmarshaler for texts of MarshalText. The stream
// then continues where the stored one was. After an error nothing has changed.
func (g *PCG64) UnmarshalText(text []byte) error {
	var b [stateBytes]byte
	if len(text) != hex.EncodedLen(stateBytes) {
		return fmt.Errorf("numpyrand: state: found %d digits, must be %d", len(text), hex.EncodedLen(stateBytes))
	}
	if _, err := hex.Decode(b[:], text); err != nil {
		return fmt.Errorf("numpyrand: state: %w", err)
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	half, has := binary.BigEndian.Uint32(b[32:]), b[36]
	switch {
	case at(3)&1 == 0:
		return errors.New("numpyrand: state: the increment is even, must be odd")
	case has > 1 || has == 0 && half != 0:
		return fmt.Errorf("numpyrand: state: the stored half of a draw is %#x and its flag %d; the flag must be 1, or both must be 0", half, has)
	}
	*g = PCG64{hi: at(0), lo: at(1), incHi: at(2), incLo: at(3), half: half, hasHalf: has == 1}
	return nil
}
