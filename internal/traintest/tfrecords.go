package traintest

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields returns the raw values of the fields of a protobuf message.
func Fields(t *testing.T, b []byte) map[protowire.Number][][]byte {
	out := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		require.Positive(t, n)
		b = b[n:]
		size := protowire.ConsumeFieldValue(num, typ, b)
		require.Positive(t, size)
		value := b[:size]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		out[num] = append(out[num], value)
		b = b[size:]
	}
	return out
}

// TFRecords returns the messages of an event file and checks their checksums.
func TFRecords(t *testing.T, path string) [][]byte {
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	check := func(data, sum []byte) {
		crc := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		require.Equal(t, crc>>15|crc<<17, binary.LittleEndian.Uint32(sum)-0xa282ead8)
	}
	var out [][]byte
	for len(raw) > 0 {
		n := binary.LittleEndian.Uint64(raw)
		check(raw[:8], raw[8:12])
		message := raw[12 : 12+n]
		check(message, raw[12+n:16+n])
		out, raw = append(out, message), raw[16+n:]
	}
	return out
}
