package processor
import ("testing";"bytes";"image/jpeg";"os";"vagen/internal/imagefile")
func BenchmarkTmp(b *testing.B){
 var f bytes.Buffer
 jpeg.Encode(&f, picture(1024,768), &jpeg.Options{Quality:75})
 p,_:=os.ReadFile("/tmp/a3prog.jpg")
 for name,raw:=range map[string][]byte{"baseline":f.Bytes(),"progressive":p} {
 for range 3 {
 b.Run(name+"/old", func(b *testing.B){ for b.Loop(){ im,_:=jpeg.Decode(bytes.NewReader(raw)); RGB(im)}})
 b.Run(name+"/new", func(b *testing.B){ for b.Loop(){ im,err:=imagefile.Decode(raw);if err!=nil{b.Fatal(err)}; RGB(im)}})
 }}
}
