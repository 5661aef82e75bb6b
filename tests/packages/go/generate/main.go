// Writes the SDKs of a package, by the generators that `pulumi package gen-sdk` calls through the language hosts: those of this engine's
// version cannot be built from Go modules.
//
//	generate SCHEMA FOLDER
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	golang "github.com/pulumi/pulumi/pkg/v3/codegen/go"
	"github.com/pulumi/pulumi/pkg/v3/codegen/nodejs"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
)

func main() {
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(file, folder string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var spec schema.PackageSpec
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	pkg, found, err := schema.BindSpec(spec, schema.NewNullLoader(), schema.ValidationOptions{})
	if err != nil {
		return err
	}
	if found.HasErrors() {
		return found
	}
	inGo, err := golang.GeneratePackage("tests", pkg, nil)
	if err != nil {
		return err
	}
	inTypeScript, err := nodejs.GeneratePackage("tests", pkg, nil, nil, true, nil)
	if err != nil {
		return err
	}
	for language, files := range map[string]map[string][]byte{"go": inGo, "nodejs": inTypeScript} {
		for path, content := range files {
			path = filepath.Join(folder, language, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
