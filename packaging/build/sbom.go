package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/google/uuid"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"

	"github.com/nodehitch/nodehitch/packaging/programs"
)

// homepage is where the project lives.
const homepage = "https://github.com/nodehitch/nodehitch"

const noAssertion = "NOASSERTION"

// bom is a software bill of materials in the making: each program, the modules that it depends
// on, and the files of others that it contains.
type bom struct {
	document *spdx.Document
	modules  map[module]spdx.ElementID
}

// writeSBOM writes what the programs are made of, by their build information.
func writeSBOM(file string, p packages) error {
	b := bom{modules: map[module]spdx.ElementID{}, document: &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "nodehitch-" + p.version,
		CreationInfo: &spdx.CreationInfo{Created: p.at.Format(time.RFC3339), Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "nodehitch-packaging"}}},
	}}
	for _, arch := range p.arches {
		for _, program := range programs.All {
			if err := b.add(program.Name, arch, p.build); err != nil {
				return fmt.Errorf("%s for %s: %w", program.Name, arch, err)
			}
		}
	}
	digests := ""
	for _, p := range b.document.Packages {
		digests += fmt.Sprint(p.PackageChecksums)
	}
	b.document.DocumentNamespace = homepage + "/sbom/" + p.version + "/" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(digests)).String()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := spdxjson.Write(b.document, f, spdxjson.Indent("  "), spdxjson.EscapeHTML(false)); err != nil {
		return err
	}
	return f.Close()
}

// add adds a program, and the modules in it.
func (b *bom) add(name, arch, version string) error {
	modules, err := linked(path(name, arch))
	if err != nil {
		return err
	}
	digest, err := digestOf(path(name, arch))
	if err != nil {
		return err
	}
	p := &spdx.Package{PackageName: name, PackageSPDXIdentifier: identifier("Program", name, arch), PackageVersion: version,
		PackageSummary:          "for " + arch,
		PackageChecksums:        []spdx.Checksum{{Algorithm: spdx.SHA256, Value: digest}},
		PackageDownloadLocation: homepage, PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: noAssertion,
	}
	b.document.Packages = append(b.document.Packages, p)
	b.relate("DOCUMENT", spdx.RelationshipDescribes, p.PackageSPDXIdentifier)
	for _, m := range modules {
		b.relate(p.PackageSPDXIdentifier, spdx.RelationshipDependsOn, b.module(m))
	}
	files, err := vendoredBy(name)
	if err != nil {
		return err
	}
	for _, v := range files {
		b.relate(p.PackageSPDXIdentifier, spdx.RelationshipContains, b.file(v))
	}
	return nil
}

// file is the element of a package of npm of which a program contains a file.
func (b *bom) file(v vendored) spdx.ElementID {
	m := module{Path: "npm:" + v.Package, Version: v.Version}
	id, known := b.modules[m]
	if !known {
		id = identifier("Npm", v.Package, v.Version)
		b.modules[m] = id
		b.document.Packages = append(b.document.Packages, &spdx.Package{PackageName: v.Package, PackageSPDXIdentifier: id, PackageVersion: v.Version,
			PackageSummary:          v.From,
			PackageChecksums:        []spdx.Checksum{{Algorithm: spdx.SHA256, Value: v.SHA256}},
			PackageDownloadLocation: noAssertion, PackageLicenseConcluded: v.License, PackageLicenseDeclared: v.License, PackageCopyrightText: noAssertion,
			PackageExternalReferences: []*spdx.PackageExternalReference{{Category: spdx.CategoryPackageManager, RefType: spdx.PackageManagerPURL,
				Locator: "pkg:npm/" + v.Package + "@" + v.Version}},
		})
	}
	return id
}

// module is the element of a module, which several programs may depend on.
func (b *bom) module(m module) spdx.ElementID {
	id, known := b.modules[m]
	if !known {
		id = identifier("Module", m.Path, m.Version)
		b.modules[m] = id
		b.document.Packages = append(b.document.Packages, &spdx.Package{PackageName: m.Path, PackageSPDXIdentifier: id, PackageVersion: m.Version,
			PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
			PackageExternalReferences: []*spdx.PackageExternalReference{{Category: spdx.CategoryPackageManager, RefType: spdx.PackageManagerPURL,
				Locator: "pkg:golang/" + m.Path + "@" + m.Version}},
		})
	}
	return id
}

func (b *bom) relate(from spdx.ElementID, how string, to spdx.ElementID) {
	b.document.Relationships = append(b.document.Relationships, &spdx.Relationship{
		RefA: spdx.DocElementID{ElementRefID: from}, Relationship: how, RefB: spdx.DocElementID{ElementRefID: to}})
}

var notInIdentifier = regexp.MustCompile(`[^0-9A-Za-z.]+`)

// identifier is one of SPDX, which knows letters, digits, dots and dashes. The hash keeps
// names apart that differ in other characters only.
func identifier(kind, name, variant string) spdx.ElementID {
	sum := sha256.Sum256([]byte(name + "\x00" + variant))
	return spdx.ElementID(fmt.Sprintf("%s-%s-%s-%x", kind, notInIdentifier.ReplaceAllString(name, "-"), notInIdentifier.ReplaceAllString(variant, "-"), sum[:4]))
}

// digestOf is the SHA-256 of a file.
func digestOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
