#!/bin/bash
# Runs once, when the cluster is made: a database and an account of its own for each service that has one.
set -euo pipefail

for name in team_lifecycle library_search workspaces; do
    password=$(<"/run/secrets/${name//_/-}-postgres-password")
    psql --set ON_ERROR_STOP=1 --set name="$name" --set password="$password" <<'SQL'
create role :"name" login password :'password';
create database :"name" owner :"name";
revoke connect on database :"name" from public;
SQL
done
