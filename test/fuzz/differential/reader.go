// Reads the archives that are named on standard input, one a line, with Go's archive/tar, which podman's reader comes
// from. Prints one line of JSON for each: the entries with contents, and the error that ended the reading.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
)

type member struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Sha256 string `json:"sha256"`
}

type answer struct {
	Members []member `json:"members"`
	Error   string   `json:"error"`
}

// contents opens an archive, and decompresses it by the end of its name.
func contents(path string) (io.Reader, error) {
	if strings.HasSuffix(path, ".zst") {
		output, err := exec.Command("zstd", "-dcq", path).Output()
		return bytes.NewReader(output), err
	}
	file, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return file, err
	}
	return gzip.NewReader(file)
}

func read(path string) (result answer) {
	result.Members = []member{}
	input, err := contents(path)
	if err != nil {
		result.Error = err.Error()
		return
	}
	reader := tar.NewReader(input)
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return
		}
		if err == nil {
			hash := sha256.New()
			if _, err = io.Copy(hash, reader); err == nil {
				sum := hex.EncodeToString(hash.Sum(nil))
				result.Members = append(result.Members, member{header.Name, string(rune(header.Typeflag)), sum})
			}
		}
		if err != nil {
			result.Error = err.Error()
			return
		}
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	encoder := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if err := encoder.Encode(read(lines.Text())); err != nil {
			panic(err)
		}
	}
}
