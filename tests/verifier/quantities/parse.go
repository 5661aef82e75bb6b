// Command parse answers with what Kubernetes itself reads in amounts: one JSON text a line in, one decimal number or null a line out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var text string
		if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
			panic(err)
		}
		parsed, err := resource.ParseQuantity(text)
		if err != nil {
			fmt.Println("null")
			continue
		}
		said, _ := json.Marshal(parsed.AsDec().String())
		fmt.Println(string(said))
	}
}
