package tokenizer

// Byte-level BPE writes every byte as one printable character: printable Latin-1
// bytes as themselves, the other 68 bytes as U+0100 and up, in order. The table is
// GPT-2's (Radford et al. 2019).
var (
	byteToRune [256]rune
	runeToByte = map[rune]byte{}
)

func init() {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= 0xa1 && r <= 0xac || r >= 0xae) {
			r = next
			next++
		}
		byteToRune[b] = r
		runeToByte[r] = byte(b)
	}
}

// toBytes maps a vocabulary entry to the bytes it encodes. An entry with a character
// outside the alphabet, such as an added token that contains a space, encodes its own
// UTF-8.
func toBytes(entry string) string {
	b := make([]byte, 0, len(entry))
	for _, r := range entry {
		v, ok := runeToByte[r]
		if !ok {
			return entry
		}
		b = append(b, v)
	}
	return string(b)
}
